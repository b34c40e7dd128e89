"""The stub: a host that only starts processes speaks through it to a server that is elsewhere."""
