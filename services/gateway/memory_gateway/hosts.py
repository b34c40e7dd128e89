"""Which host names are served: no web page may reach the memory by a name of its own."""

import re
from collections.abc import Collection, Iterable

from memory_gateway.asgi import REFUSED, App, Receive, Scope, Send, header, refuse

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
FOREIGN_HOST = "This host name is not served; MCP_ALLOWED_HOSTS lists those that are."
FOREIGN_ORIGIN = "This origin is not allowed; MCP_ALLOWED_ORIGINS lists those that are."
NOT_ONE_HOST = "The request must name its host in exactly one Host header."
HIGHEST_PORT = 65535
_NAME = r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])"
_HOST = re.compile(_NAME + r"(?::(?P<port>[0-9]{1,5}))?")
_ENTRY = re.compile(_NAME + r"(?::(?:\*|(?P<port>[0-9]{1,5})))?")


class HostNames:
    """Host names, each alone (then with any port) or with its port; see `read_host`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._served = {read_host(name) for name in names}

    def include(self, value: str) -> bool:
        """Whether a Host header's value is one of them."""
        match = _HOST.fullmatch(value.lower())
        if match is None:
            return False
        name, port = match["name"], match["port"]
        if port is not None and not 0 < int(port) <= HIGHEST_PORT:
            return False
        return (name, None) in self._served or (name, port) in self._served


def read_host(text: str) -> tuple[str, str | None]:
    """Returns a listed name and its port. Raises `ValueError` for what is no host name.

    A bare IPv6 address gets the brackets that it has in a Host header; the port `*` is any.
    """
    lower = text.lower()
    match = _ENTRY.fullmatch(lower) or _ENTRY.fullmatch(f"[{lower}]")
    if match is None or int(match["port"] or 0) > HIGHEST_PORT:
        raise ValueError(text)
    return match["name"], match["port"]


class HostCheck:
    """Refuses foreign Host (421) and Origin (403) headers.

    An origin is allowed that is listed, or whose host is one that is served.
    """

    def __init__(
        self, app: App, hosts: HostNames, origins: Collection[str], open_paths: Collection[str]
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        named = [value for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1:
            await refuse(scope, send, 400, REFUSED, NOT_ONE_HOST)
        elif not self._hosts.include(named[0].decode("latin-1")):
            await refuse(scope, send, 421, REFUSED, FOREIGN_HOST)
        elif not self._allows(header(scope, b"origin")):
            await refuse(scope, send, 403, REFUSED, FOREIGN_ORIGIN)
        else:
            await self._app(scope, receive, send)

    def _allows(self, origin: bytes | None) -> bool:
        if origin is None:
            return True
        text = origin.decode("latin-1")
        _, _, host = text.partition("://")
        return text in self._origins or self._hosts.include(host)
