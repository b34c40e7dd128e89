# The budget's interface wants a project that answers for the calls, which a person's own credentials do not name.
provider "google" {
  project               = var.project
  region                = var.region
  zone                  = local.zone
  billing_project       = var.project
  user_project_override = true
  default_labels        = { app = local.name }
}

# Takes its credentials from the environment: TAILSCALE_OAUTH_CLIENT_ID and TAILSCALE_OAUTH_CLIENT_SECRET.
provider "tailscale" {}
