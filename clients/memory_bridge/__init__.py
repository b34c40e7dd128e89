"""What runs on a user's machine: raw client, stub and command line. Standard library only."""

__version__ = "0.1.0"
