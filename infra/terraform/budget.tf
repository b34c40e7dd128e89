# Tells, and stops nothing. Counted after the credits of the free tier, in the currency of the billing account.
resource "google_billing_budget" "one" {
  billing_account = var.billing_account
  display_name    = "Memory Bridge costs something"

  budget_filter {
    projects               = ["projects/${google_storage_bucket.backups.project_number}"]
    credit_types_treatment = "INCLUDE_ALL_CREDITS"
  }

  amount {
    specified_amount { units = "1" }
  }

  dynamic "threshold_rules" {
    for_each = [0.01, 0.5, 1]
    content { threshold_percent = threshold_rules.value }
  }

  depends_on = [google_project_service.needed]
}
