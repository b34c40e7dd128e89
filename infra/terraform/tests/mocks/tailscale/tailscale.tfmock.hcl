mock_resource "tailscale_federated_identity" {
  defaults = {
    id       = "kExample11CNTRL"
    audience = "api.tailscale.com/kExample11CNTRL"
  }
}
