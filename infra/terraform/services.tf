locals {
  name = "memory-bridge"
  zone = coalesce(var.zone, "${var.region}-b")
}

resource "google_project_service" "needed" {
  for_each = toset(concat(
    ["billingbudgets", "compute", "iam", "secretmanager", "storage"],
    var.iap_ssh ? ["iap"] : [],
  ))

  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false # others in the project may use it
}
