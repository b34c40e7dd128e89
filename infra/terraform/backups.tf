resource "google_storage_bucket" "backups" {
  #checkov:skip=CKV_GCP_62:Logs of access would need a second bucket and count against the free 5 GB; only the owner can read this one
  #checkov:skip=CKV_GCP_78:Nothing is ever replaced in it, as the VM may only add; kept versions would count against the free 5 GB
  name                        = "${var.project}-${local.name}-backups"
  location                    = var.region
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  # Google keeps what was deleted for a week more, and counts it.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action { type = "Delete" }
    condition { age = var.backup_days }
  }

  lifecycle_rule {
    action { type = "AbortIncompleteMultipartUpload" }
    condition { age = 1 }
  }

  lifecycle {
    prevent_destroy = true
  }

  depends_on = [google_project_service.needed]
}
