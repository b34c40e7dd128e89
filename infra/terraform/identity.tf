# What the VM may do: join the tailnet, add backups and the token that it makes, and with an auth key read that one.
# Rights hang on single things, none on the project.
resource "google_service_account" "vm" {
  account_id   = "${local.name}-vm"
  display_name = "Memory Bridge VM"

  depends_on = [google_project_service.needed]
}

# May add, neither read, list, replace nor delete: whoever takes the VM over cannot take the backups away.
resource "google_storage_bucket_iam_member" "vm_adds_backups" {
  bucket = google_storage_bucket.backups.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.vm.member
}

resource "google_secret_manager_secret_iam_member" "vm_adds_token" {
  secret_id = google_secret_manager_secret.token.id
  role      = "roles/secretmanager.secretVersionAdder"
  member    = google_service_account.vm.member
}

resource "google_secret_manager_secret_iam_member" "vm_reads_auth_key" {
  count = length(google_secret_manager_secret.auth_key)

  secret_id = google_secret_manager_secret.auth_key[0].id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.vm.member
}
