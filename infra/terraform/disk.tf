# The memory. The VM and its boot disk can be made anew at any time, this cannot.
resource "google_compute_disk" "data" {
  #checkov:skip=CKV_GCP_37:Google encrypts it; a key of one's own would have to be handed over at every start, so that no restart is unattended
  name = local.data_disk
  zone = local.zone
  type = "pd-standard"
  size = var.data_disk_gb

  lifecycle {
    prevent_destroy = true
  }

  depends_on = [google_project_service.needed]
}
