mock_provider "google" {
  source          = "./tests/mocks/google"
  override_during = plan
}

mock_provider "tailscale" {
  source          = "./tests/mocks/tailscale"
  override_during = plan
}

run "nothing_comes_in" {
  command = plan

  assert {
    condition     = google_compute_network.own.auto_create_subnetworks == false
    error_message = "The network is not its own."
  }
  assert {
    condition     = google_compute_instance.vm.network_interface[0].subnetwork == google_compute_subnetwork.own.id
    error_message = "The VM is in another network."
  }
  assert {
    condition = (
      google_compute_firewall.deny_ingress.network == google_compute_network.own.id
      && google_compute_firewall.deny_ingress.direction == "INGRESS"
      && google_compute_firewall.deny_ingress.source_ranges == toset(["0.0.0.0/0"])
      && one(google_compute_firewall.deny_ingress.deny).protocol == "all"
      && length(google_compute_firewall.deny_ingress.allow) == 0
    )
    error_message = "Not all that comes in is denied."
  }
  assert {
    condition     = length(google_compute_firewall.iap_ssh) == 0
    error_message = "SSH is open without being asked for."
  }
  assert {
    condition     = google_compute_instance.vm.network_interface[0].stack_type == "IPV4_ONLY" && google_compute_subnetwork.own.stack_type == "IPV4_ONLY"
    error_message = "The rule speaks of IPv4, and there is IPv6."
  }
}

run "ssh_comes_through_the_proxy_only" {
  command = plan

  variables {
    iap_ssh = true
  }

  assert {
    condition     = google_compute_firewall.iap_ssh[0].source_ranges == toset(["35.235.240.0/20"])
    error_message = "SSH is open to others than Google's proxy."
  }
  assert {
    condition     = one(google_compute_firewall.iap_ssh[0].allow).protocol == "tcp" && one(google_compute_firewall.iap_ssh[0].allow).ports == tolist(["22"])
    error_message = "More than SSH is open."
  }
  assert {
    condition     = google_compute_firewall.iap_ssh[0].priority < google_compute_firewall.deny_ingress.priority
    error_message = "The proxy is denied as well."
  }
}

run "the_vm_is_shielded_and_bare" {
  command = plan

  assert {
    condition     = endswith(google_compute_instance.vm.boot_disk[0].initialize_params[0].image, "/family/debian-13")
    error_message = "The VM does not run Debian 13."
  }
  assert {
    condition = alltrue([
      for each in google_compute_instance.vm.shielded_instance_config :
      each.enable_secure_boot && each.enable_vtpm && each.enable_integrity_monitoring
    ])
    error_message = "The VM is not shielded."
  }
  assert {
    condition = (
      google_compute_instance.vm.metadata.enable-oslogin == "TRUE"
      && google_compute_instance.vm.metadata.block-project-ssh-keys == "TRUE"
      && google_compute_instance.vm.metadata.serial-port-enable == "FALSE"
    )
    error_message = "There is another way to log in."
  }
}

run "the_memory_is_on_a_disk_of_its_own" {
  command = plan

  assert {
    condition     = google_compute_instance.vm.attached_disk[0].source == google_compute_disk.data.id
    error_message = "The data disk is not attached."
  }
  assert {
    condition     = google_compute_instance.vm.attached_disk[0].device_name == google_compute_instance.vm.metadata.memory-bridge-data-disk
    error_message = "The start-up script would look for another disk."
  }
}
