"""How much one principal may ask of the gateway, so that the others still get their share."""
