project         = "example-project"
billing_account = "01AB23-CD45EF-6789AB"
tailnet         = "tail1a2b3c.ts.net"
release         = "0.1.0@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
