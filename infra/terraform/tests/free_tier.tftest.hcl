mock_provider "google" {
  source          = "./tests/mocks/google"
  override_during = plan
}

mock_provider "tailscale" {
  source          = "./tests/mocks/tailscale"
  override_during = plan
}

run "the_vm_is_the_free_one" {
  command = plan

  assert {
    condition     = google_compute_instance.vm.machine_type == "e2-micro"
    error_message = "Only an e2-micro is free."
  }
  assert {
    condition     = google_compute_instance.vm.zone == "us-central1-b"
    error_message = "Without a zone it is zone b of the region."
  }
  assert {
    condition = alltrue([
      for each in google_compute_instance.vm.scheduling :
      each.provisioning_model == "STANDARD" && !each.preemptible
    ])
    error_message = "Spot and preemptible VMs are not free."
  }
  assert {
    condition     = length(google_compute_instance.vm.guest_accelerator) == 0
    error_message = "Accelerators are not free."
  }
}

run "its_disks_are_free" {
  command = plan

  variables {
    boot_disk_gb = 12
    data_disk_gb = 18
  }

  assert {
    condition     = google_compute_instance.vm.boot_disk[0].initialize_params[0].type == "pd-standard"
    error_message = "The boot disk is of a type that is not free."
  }
  assert {
    condition     = google_compute_disk.data.type == "pd-standard"
    error_message = "The data disk is of a type that is not free."
  }
  assert {
    condition     = google_compute_instance.vm.boot_disk[0].initialize_params[0].size + google_compute_disk.data.size == 30
    error_message = "The disks do not have the sizes that were asked for."
  }
}

run "its_address_is_free" {
  command = plan

  assert {
    condition     = google_compute_instance.vm.network_interface[0].access_config[0].network_tier == "STANDARD"
    error_message = "Of the premium tier only 1 GB a month is free, of the standard tier 200."
  }
  assert {
    condition     = length(google_compute_instance.vm.network_interface) == 1 && length(google_compute_instance.vm.network_interface[0].access_config) == 1
    error_message = "One address is credited, not two."
  }
}

run "backups_are_free_and_end" {
  command = plan

  variables {
    region      = "us-east1"
    backup_days = 14
  }

  assert {
    condition     = google_storage_bucket.backups.location == "us-east1" && startswith(google_compute_instance.vm.zone, "us-east1-")
    error_message = "Backups lie in the region of the VM, where 5 GB are free."
  }
  assert {
    condition     = google_storage_bucket.backups.storage_class == "STANDARD"
    error_message = "Only the standard class is free."
  }
  assert {
    condition     = google_storage_bucket.backups.soft_delete_policy[0].retention_duration_seconds == 0
    error_message = "What was deleted would be kept, and counted."
  }
  assert {
    condition = anytrue([
      for rule in google_storage_bucket.backups.lifecycle_rule :
      one(rule.action).type == "Delete" && one(rule.condition).age == 14
    ])
    error_message = "Backups older than backup_days stay."
  }
  assert {
    condition     = google_storage_bucket.backups.public_access_prevention == "enforced" && google_storage_bucket.backups.uniform_bucket_level_access
    error_message = "The bucket can be opened to the public."
  }
}

run "the_first_cent_is_told" {
  command = plan

  assert {
    condition     = google_billing_budget.one.amount[0].specified_amount[0].units == "1"
    error_message = "The budget is one dollar."
  }
  assert {
    condition     = min(google_billing_budget.one.threshold_rules[*].threshold_percent...) == 0.01
    error_message = "The first alert comes at one per cent."
  }
  assert {
    condition     = toset(google_billing_budget.one.budget_filter[0].projects) == toset(["projects/123456789012"])
    error_message = "The budget counts this project and no other."
  }
}
