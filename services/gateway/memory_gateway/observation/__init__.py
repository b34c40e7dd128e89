"""What can be seen of the gateway from outside: logs, metrics, traces. Never a value or a token."""
