locals {
  backups    = "gs://${google_storage_bucket.backups.name}"
  url        = "https://${var.hostname}.${var.tailnet}/mcp"
  vm         = "${google_compute_instance.vm.name} --zone=${local.zone} --project=${var.project}"
  read_token = "gcloud secrets versions access latest --secret=${google_secret_manager_secret.token.secret_id} --project=${var.project}"
}

output "url" {
  description = "Where MCP clients find the memory, once the VM has started: about ten minutes after the first apply"
  value       = local.url
}

output "token" {
  description = "How to read the token, which the VM made"
  value       = local.read_token
}

output "clients" {
  description = "What to paste to connect clients"
  value       = <<-TEXT
    Claude Code:
      claude mcp add --transport http memory-bridge ${local.url} --header "Authorization: Bearer $(${local.read_token})"

    Clients with a JSON file that speak HTTP (Cursor), and the token in the variable MEMORY_BRIDGE_TOKEN:
      {"mcpServers": {"memory-bridge": {"url": "${local.url}", "headers": {"Authorization": "Bearer $${env:MEMORY_BRIDGE_TOKEN}"}}}}

    Clients that start a process (Claude Desktop), and the token in a file:
      (umask 077 && ${local.read_token} > memory-bridge.token)
      memory-bridge stdio --url ${local.url} --token-file memory-bridge.token

    docs/connecting.md has every other client.
  TEXT
}

output "tailnet_policy" {
  description = "What the tailnet's policy must hold before the first apply; merge it, nothing is overwritten"
  value       = <<-JSON
    {
      "tagOwners": {"${var.tailscale_tag}": ["autogroup:admin"]},
      "nodeAttrs": [{"target": ["${var.tailscale_tag}"], "attr": ["funnel"]}]
    }
  JSON
}

output "ssh" {
  description = "How to get a shell on the VM, if `iap_ssh` is on"
  value = var.iap_ssh ? (
    "gcloud compute ssh ${local.vm} --tunnel-through-iap"
  ) : "Set iap_ssh = true and apply: no port is open otherwise."
}

output "restart" {
  description = "How to restart the VM, which is when another release is taken"
  value       = "gcloud compute instances stop ${local.vm} && gcloud compute instances start ${local.vm}"
}

output "backups" {
  description = "Bucket with the nightly backups"
  value       = local.backups
}

output "teardown" {
  description = "How to take everything down, and the memory only if that is meant"
  value       = <<-TEXT
    # Everything but the memory and its backups, which Terraform refuses to destroy:
    terraform state rm google_compute_disk.data google_storage_bucket.backups
    terraform destroy

    # The memory and its backups, for good:
    gcloud compute disks delete ${google_compute_disk.data.name} --zone=${local.zone} --project=${var.project}
    gcloud storage rm --recursive ${local.backups}
  TEXT
}
