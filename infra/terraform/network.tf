# A network of its own: the default one lets SSH, RDP and ping in from everywhere.
resource "google_compute_network" "own" {
  name                    = local.name
  auto_create_subnetworks = false

  depends_on = [google_project_service.needed]
}

resource "google_compute_subnetwork" "own" {
  #checkov:skip=CKV_GCP_26:Flow logs cost, and would tell of one VM that nothing reaches
  name                     = local.name
  region                   = var.region
  network                  = google_compute_network.own.id
  ip_cidr_range            = "10.80.0.0/28"
  stack_type               = "IPV4_ONLY"
  private_ip_google_access = true
}

# Every network ends in such a rule unseen; this one can be read and tested. Funnel needs ways out only.
resource "google_compute_firewall" "deny_ingress" {
  name          = "${local.name}-deny-ingress"
  network       = google_compute_network.own.id
  direction     = "INGRESS"
  priority      = 65000
  source_ranges = ["0.0.0.0/0"]

  deny { protocol = "all" }
}

# What Identity-Aware Proxy connects from: https://cloud.google.com/iap/docs/using-tcp-forwarding
resource "google_compute_firewall" "iap_ssh" {
  count = var.iap_ssh ? 1 : 0

  name          = "${local.name}-iap-ssh"
  network       = google_compute_network.own.id
  direction     = "INGRESS"
  priority      = 1000
  source_ranges = ["35.235.240.0/20"]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}
