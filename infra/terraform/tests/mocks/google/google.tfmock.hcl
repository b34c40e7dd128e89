mock_resource "google_service_account" {
  defaults = {
    email     = "memory-bridge-vm@example-project.iam.gserviceaccount.com"
    member    = "serviceAccount:memory-bridge-vm@example-project.iam.gserviceaccount.com"
    unique_id = "109876543210987654321"
  }
}

mock_resource "google_storage_bucket" {
  defaults = { project_number = 123456789012 }
}

mock_resource "google_compute_network" {
  defaults = { id = "projects/example-project/global/networks/memory-bridge" }
}

mock_resource "google_compute_subnetwork" {
  defaults = { id = "projects/example-project/regions/us-central1/subnetworks/memory-bridge" }
}

mock_resource "google_compute_disk" {
  defaults = { id = "projects/example-project/zones/us-central1-b/disks/memory-bridge-data" }
}

mock_resource "google_secret_manager_secret" {
  defaults = { id = "projects/example-project/secrets/one-of-them" }
}
