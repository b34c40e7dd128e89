# Empty here: the VM makes the token at its first start and puts it in, so that neither plan nor state knows it.
resource "google_secret_manager_secret" "token" {
  secret_id = "${local.name}-token"

  replication {
    auto {}
  }

  depends_on = [google_project_service.needed]
}
