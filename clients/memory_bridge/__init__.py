"""What runs on a user's machine: the raw MCP client, the stub, the command line. Standard library only."""

__version__ = "0.1.0"
