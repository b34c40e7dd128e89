"""The version of the installed distribution."""

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "mcp-memory-bridge"


def _installed() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0.0.0"


VERSION = _installed()
