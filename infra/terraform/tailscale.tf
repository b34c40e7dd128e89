# Google signs who the VM is, Tailscale believes it: there is no secret to keep, to leak or to renew.
resource "tailscale_federated_identity" "vm" {
  count = var.tailscale_auth == "workload-identity" ? 1 : 0

  description = "Memory Bridge VM"
  issuer      = "https://accounts.google.com"
  subject     = google_service_account.vm.unique_id
  scopes      = ["auth_keys"]
  tags        = [var.tailscale_tag]
}

# The other way: a key that only the VM may read.
resource "google_secret_manager_secret" "auth_key" {
  count = var.tailscale_auth == "auth-key" ? 1 : 0

  secret_id = "${local.name}-tailscale-auth-key"

  replication {
    auto {}
  }

  depends_on = [google_project_service.needed]
}

resource "google_secret_manager_secret_version" "auth_key" {
  count = length(google_secret_manager_secret.auth_key)

  secret                 = google_secret_manager_secret.auth_key[0].id
  secret_data_wo         = var.tailscale_auth_key
  secret_data_wo_version = tostring(var.tailscale_auth_key_version)
}
