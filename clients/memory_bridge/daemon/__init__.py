"""The server in the background: one of them for each folder of state."""
