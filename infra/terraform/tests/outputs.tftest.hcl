mock_provider "google" {
  source          = "./tests/mocks/google"
  override_during = plan
}

mock_provider "tailscale" {
  source          = "./tests/mocks/tailscale"
  override_during = plan
}

run "it_says_where_the_memory_is" {
  command = plan

  variables {
    hostname = "notes"
  }

  assert {
    condition     = output.url == "https://notes.tail1a2b3c.ts.net/mcp"
    error_message = "The URL is wrong."
  }
  assert {
    condition     = output.token == "gcloud secrets versions access latest --secret=memory-bridge-token --project=example-project"
    error_message = "The command for the token is wrong."
  }
  assert {
    condition     = strcontains(output.clients, "claude mcp add --transport http memory-bridge ${output.url} --header \"Authorization: Bearer $(${output.token})\"")
    error_message = "The line for Claude Code is wrong."
  }
  assert {
    condition     = strcontains(output.clients, "memory-bridge stdio --url ${output.url} --token-file memory-bridge.token")
    error_message = "The line for the stub is wrong."
  }
}

run "it_prints_the_policy_for_the_tag_that_is_used" {
  command = plan

  variables {
    tailscale_tag = "tag:notes"
  }

  assert {
    condition     = jsondecode(output.tailnet_policy).nodeAttrs[0] == { attr = ["funnel"], target = ["tag:notes"] }
    error_message = "Funnel is given to another tag."
  }
  assert {
    condition     = jsondecode(output.tailnet_policy).tagOwners == { "tag:notes" = ["autogroup:admin"] }
    error_message = "The tag has no owner."
  }
  assert {
    condition     = google_compute_instance.vm.metadata.memory-bridge-tailscale-tag == "tag:notes"
    error_message = "The VM uses another tag."
  }
}

run "it_says_how_to_get_in_and_out" {
  command = plan

  variables {
    region  = "us-west1"
    zone    = "us-west1-c"
    iap_ssh = true
  }

  assert {
    condition     = output.ssh == "gcloud compute ssh memory-bridge --zone=us-west1-c --project=example-project --tunnel-through-iap"
    error_message = "The command for a shell is wrong."
  }
  assert {
    condition     = startswith(output.restart, "gcloud compute instances stop memory-bridge --zone=us-west1-c --project=example-project &&")
    error_message = "The command to restart it is wrong."
  }
  assert {
    condition     = strcontains(output.teardown, "gcloud compute disks delete memory-bridge-data --zone=us-west1-c --project=example-project")
    error_message = "The data disk could not be deleted."
  }
  assert {
    condition     = strcontains(output.teardown, "gcloud storage rm --recursive ${output.backups}")
    error_message = "The backups could not be deleted."
  }
}
