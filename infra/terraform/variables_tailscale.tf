variable "tailscale_auth" {
  description = "How the VM joins the tailnet: `workload-identity` needs no secret, `auth-key` takes one from Secret Manager"
  type        = string
  default     = "workload-identity"

  validation {
    condition     = contains(["workload-identity", "auth-key"], var.tailscale_auth)
    error_message = "The VM joins the tailnet by workload-identity or by auth-key: choose one of the two."
  }
}

variable "tailscale_auth_key" {
  description = "The key, with `tailscale_auth = \"auth-key\"`; give it as TF_VAR_tailscale_auth_key"
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = (var.tailscale_auth == "auth-key") == can(regex("^tskey-auth-", var.tailscale_auth_key))
    error_message = "A key, which begins with tskey-auth-, goes with tailscale_auth = \"auth-key\" and with nothing else: give both or neither."
  }
}

variable "tailscale_auth_key_version" {
  description = "A number to count up when the key is another one; without that it is not sent again"
  type        = number
  default     = 1

  validation {
    condition     = var.tailscale_auth_key_version >= 1 && floor(var.tailscale_auth_key_version) == var.tailscale_auth_key_version
    error_message = "The version of the key is a whole number from 1."
  }
}

variable "tailscale_tag" {
  description = "Tag of the VM in the tailnet, to which the tailnet's policy gives Funnel"
  type        = string
  default     = "tag:memory-bridge"

  validation {
    condition     = can(regex("^tag:[a-z][a-z0-9-]*$", var.tailscale_tag))
    error_message = "The tag is written as in the tailnet's policy: tag: and then lower-case letters, digits and hyphens."
  }
}
