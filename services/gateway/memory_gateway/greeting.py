"""What `serve` tells the person who started it, on stderr."""

import shlex
import sys
from contextlib import suppress
from pathlib import Path

NO_CLIENT = """\
This server speaks MCP on stdin and stdout with a client that starts it; it does not answer what
you type. `memory-bridge serve --http` serves over HTTP instead. Ctrl-C ends it.
"""


def tell(text: str) -> None:
    """Says it if anybody listens: that nobody does is no reason not to serve."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def how_to_connect(url: str, memory: str, token_file: Path | None) -> str:
    """Returns lines for people. The one to paste holds the place of the token, never the token."""
    if token_file is None:
        place, token = "the variable MCP_AUTH_TOKEN", "$MCP_AUTH_TOKEN"
    else:
        place = str(token_file.expanduser().absolute())
        token = f"$(cat {shlex.quote(place)})"
    return f"""\
The memory is in        {memory}
It is served at         {url}
Its token is in         {place}
Connect Claude Code with

  claude mcp add --transport http memory-bridge {url} --header "Authorization: Bearer {token}"

"""
