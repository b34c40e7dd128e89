"""What is wrong with a server, seen from where its clients are, and what to do about it."""
