"""`python -m memory_bridge` is the command `memory-bridge`."""

import sys

from memory_bridge.cli import main

if __name__ == "__main__":
    sys.exit(main())
