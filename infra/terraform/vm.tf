locals {
  data_disk = "${local.name}-data"

  # What the start-up script reads: https://cloud.google.com/compute/docs/metadata. Everybody on the VM can read it.
  settings = {
    memory-bridge-release        = var.release
    memory-bridge-images         = var.images
    memory-bridge-hostname       = var.hostname
    memory-bridge-tailnet        = var.tailnet
    memory-bridge-bucket         = google_storage_bucket.backups.name
    memory-bridge-data-disk      = local.data_disk
    memory-bridge-token-secret   = google_secret_manager_secret.token.id
    memory-bridge-tailscale-auth = var.tailscale_auth
    memory-bridge-tailscale-tag  = var.tailscale_tag
  }
  way_into_tailnet = var.tailscale_auth == "workload-identity" ? {
    memory-bridge-tailscale-client-id = tailscale_federated_identity.vm[0].id
    memory-bridge-tailscale-audience  = tailscale_federated_identity.vm[0].audience
    } : {
    memory-bridge-tailscale-secret = google_secret_manager_secret.auth_key[0].id
  }
}

resource "google_compute_instance" "vm" {
  #checkov:skip=CKV_GCP_32:Keys of the project are blocked; the check cannot read through merge(), tests/vm.tftest.hcl does
  #checkov:skip=CKV_GCP_38:The boot disk holds nothing worth it, and disk.tf says why not for the data
  #checkov:skip=CKV_GCP_40:The address is for ways out, which Cloud NAT would give for some 5 dollars a month; nothing comes in
  name                      = local.name
  machine_type              = "e2-micro"
  zone                      = local.zone
  allow_stopping_for_update = true
  metadata = merge(local.settings, local.way_into_tailnet, {
    startup-script         = file("${path.module}/../vm/startup.sh")
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
    serial-port-enable     = "FALSE"
  })

  boot_disk {
    initialize_params {
      image = "projects/debian-cloud/global/images/family/debian-13"
      size  = var.boot_disk_gb
      type  = "pd-standard"
    }
  }

  attached_disk {
    source      = google_compute_disk.data.id
    device_name = local.data_disk
  }

  network_interface {
    subnetwork = google_compute_subnetwork.own.id
    stack_type = "IPV4_ONLY"

    # For ways out. Ephemeral, as a reserved address costs while the VM is stopped; of the standard tier 200 GB a month are free.
    access_config { network_tier = "STANDARD" }
  }

  # A spot VM is not free.
  scheduling {
    provisioning_model  = "STANDARD"
    preemptible         = false
    automatic_restart   = true
    on_host_maintenance = "MIGRATE"
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  # What it may do is said by its rights (identity.tf), not by scopes.
  service_account {
    email  = google_service_account.vm.email
    scopes = ["cloud-platform"]
  }

  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image] # a newer image would make the VM anew
  }

  depends_on = [
    google_secret_manager_secret_iam_member.vm_adds_token,
    google_secret_manager_secret_iam_member.vm_reads_auth_key,
    google_secret_manager_secret_version.auth_key,
    google_storage_bucket_iam_member.vm_adds_backups,
  ]
}
