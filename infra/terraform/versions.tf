terraform {
  # Write-only arguments and ephemeral variables keep secrets out of the state.
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 8.7, < 9"
    }
    tailscale = {
      source  = "tailscale/tailscale"
      version = ">= 0.29.2, < 1"
    }
  }
}
