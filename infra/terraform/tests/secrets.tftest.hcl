mock_provider "google" {
  source          = "./tests/mocks/google"
  override_during = plan
}

mock_provider "tailscale" {
  source          = "./tests/mocks/tailscale"
  override_during = plan
}

run "joining_needs_no_secret" {
  command = plan

  assert {
    condition     = tailscale_federated_identity.vm[0].issuer == "https://accounts.google.com" && tailscale_federated_identity.vm[0].subject == google_service_account.vm.unique_id
    error_message = "Others than the VM could join as the VM."
  }
  assert {
    condition     = tailscale_federated_identity.vm[0].scopes == toset(["auth_keys"]) && tailscale_federated_identity.vm[0].tags == toset(["tag:memory-bridge"])
    error_message = "The VM may do more in the tailnet than join it with its tag."
  }
  assert {
    condition     = length(google_secret_manager_secret.auth_key) == 0 && length(google_secret_manager_secret_version.auth_key) == 0
    error_message = "There is a secret that nothing needs."
  }
}

run "the_start_up_is_told_these_things_and_no_secret" {
  command = plan

  assert {
    condition = toset(keys(google_compute_instance.vm.metadata)) == toset([
      "block-project-ssh-keys", "enable-oslogin", "serial-port-enable", "startup-script",
      "memory-bridge-bucket", "memory-bridge-data-disk", "memory-bridge-hostname", "memory-bridge-images",
      "memory-bridge-release", "memory-bridge-tailnet", "memory-bridge-tailscale-audience",
      "memory-bridge-tailscale-auth", "memory-bridge-tailscale-client-id", "memory-bridge-tailscale-tag",
      "memory-bridge-token-secret",
    ])
    error_message = "The metadata, which everybody on the VM can read, has other keys than those."
  }
  assert {
    condition     = google_compute_instance.vm.metadata.startup-script == file("../vm/startup.sh")
    error_message = "The start-up script is not the file as it is."
  }
  assert {
    condition = (
      google_compute_instance.vm.metadata.memory-bridge-release == var.release
      && google_compute_instance.vm.metadata.memory-bridge-images == "registry.example/somebody/memory-bridge"
      && google_compute_instance.vm.metadata.memory-bridge-hostname == "memory-bridge"
      && google_compute_instance.vm.metadata.memory-bridge-tailnet == "tail1a2b3c.ts.net"
      && google_compute_instance.vm.metadata.memory-bridge-bucket == google_storage_bucket.backups.name
      && google_compute_instance.vm.metadata.memory-bridge-token-secret == google_secret_manager_secret.token.id
      && google_compute_instance.vm.metadata.memory-bridge-tailscale-auth == "workload-identity"
      && google_compute_instance.vm.metadata.memory-bridge-tailscale-client-id == "kExample11CNTRL"
      && google_compute_instance.vm.metadata.memory-bridge-tailscale-audience == "api.tailscale.com/kExample11CNTRL"
    )
    error_message = "The start-up script is told something else."
  }
}

run "the_vm_may_add_and_not_read" {
  command = plan

  assert {
    condition     = google_storage_bucket_iam_member.vm_adds_backups.role == "roles/storage.objectCreator" && google_storage_bucket_iam_member.vm_adds_backups.bucket == google_storage_bucket.backups.name
    error_message = "The VM may do more with backups than add them."
  }
  assert {
    condition     = google_secret_manager_secret_iam_member.vm_adds_token.role == "roles/secretmanager.secretVersionAdder" && google_secret_manager_secret_iam_member.vm_adds_token.secret_id == google_secret_manager_secret.token.id
    error_message = "The VM may do more with the token than put it there."
  }
  assert {
    condition     = length(google_secret_manager_secret_iam_member.vm_reads_auth_key) == 0
    error_message = "The VM may read a secret."
  }
  assert {
    condition = toset([google_storage_bucket_iam_member.vm_adds_backups.member, google_secret_manager_secret_iam_member.vm_adds_token.member]) == toset([
      google_service_account.vm.member,
    ])
    error_message = "Somebody else has the VM's rights."
  }
  assert {
    condition     = google_compute_instance.vm.service_account[0].email == google_service_account.vm.email
    error_message = "The VM runs as another account, with other rights."
  }
}
