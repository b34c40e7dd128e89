variable "project" {
  description = "Google Cloud project that holds everything; one of its own makes the budget and the teardown exact"
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "The project is its id, 6 to 30 lower-case letters, digits and hyphens: gcloud projects list shows it."
  }
}

variable "billing_account" {
  description = "Billing account of the project, whose administrators get the alert of the budget"
  type        = string

  validation {
    condition     = can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.billing_account))
    error_message = "The billing account looks like 01AB23-CD45EF-6789AB: gcloud billing accounts list shows it."
  }
}

variable "tailnet" {
  description = "DNS name of the tailnet, the second half of the public address"
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.ts\\.net$", var.tailnet))
    error_message = "The tailnet is its DNS name, like tail1a2b3c.ts.net: the DNS page of Tailscale's admin console shows it."
  }
}

variable "release" {
  description = "Release that the VM runs from its next start on, by its digest: the last line of `infra/compose/publish`"
  type        = string

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+[0-9a-z.-]*@sha256:[0-9a-f]{64}$", var.release))
    error_message = "The release is a version with its digest, like 0.1.0@sha256: and 64 hexadecimal digits: infra/compose/publish prints it."
  }
}

variable "images" {
  description = "Where releases are published: what `infra/compose/publish` was given"
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$", var.images))
    error_message = "Images have a registry and a name in lower case, without a tag, like registry.example/somebody/memory-bridge."
  }
}

variable "region" {
  description = "Region of the VM, its disks and its backups"
  type        = string
  default     = "us-central1"

  validation {
    condition     = contains(["us-west1", "us-central1", "us-east1"], var.region)
    error_message = "Google's free tier has an e2-micro in us-west1, us-central1 and us-east1 only: choose one of them."
  }
}

variable "zone" {
  description = "Zone of the VM; without one it is zone b of the region"
  type        = string
  default     = null

  validation {
    condition     = var.zone == null || can(regex("^${var.region}-[a-f]$", var.zone))
    error_message = "The zone must lie in the region, like us-central1-b in us-central1: leave it out, or choose both alike."
  }
}

variable "hostname" {
  description = "Name of the VM in the tailnet, the first half of the public address"
  type        = string
  default     = "memory-bridge"

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.hostname))
    error_message = "The host name is one label of a DNS name: a letter, then up to 62 lower-case letters, digits and hyphens."
  }
}

variable "boot_disk_gb" {
  description = "Size of the disk with the operating system, in GB"
  type        = number
  default     = 10

  validation {
    condition     = var.boot_disk_gb >= 10 && floor(var.boot_disk_gb) == var.boot_disk_gb
    error_message = "The boot disk needs at least 10 GB, the size of Debian's image, in whole GB."
  }
}

variable "data_disk_gb" {
  description = "Size of the disk with the memory, the images of the containers and the swap file, in GB"
  type        = number
  default     = 20

  validation {
    condition     = var.data_disk_gb >= 10 && floor(var.data_disk_gb) == var.data_disk_gb
    error_message = "The data disk needs at least 10 GB for images, swap and the memory, in whole GB."
  }

  validation {
    condition     = var.boot_disk_gb + var.data_disk_gb <= 30
    error_message = "Google's free tier has 30 GB of standard disks in all: make the boot disk or the data disk smaller."
  }
}

variable "backup_days" {
  description = "Days after which a backup is deleted"
  type        = number
  default     = 30

  validation {
    condition     = var.backup_days >= 7 && var.backup_days <= 365 && floor(var.backup_days) == var.backup_days
    error_message = "Backups are kept for 7 to 365 days: fewer would leave none after a holiday, more would not fit the free 5 GB."
  }
}

variable "iap_ssh" {
  description = "Whether administrators may reach SSH through Google's Identity-Aware Proxy"
  type        = bool
  default     = false
}
