"""The addresses of clients, told by the proxies that are to be believed."""

from collections.abc import Collection
from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from memory_gateway.asgi import App


def behind_proxies(app: App, proxies: Collection[str]) -> App:
    """Puts into the scope whom a listed proxy serves, by X-Forwarded-For and -Proto: the last
    address that is no listed proxy, for what stands before it anybody may have written."""
    if not proxies:
        return app
    served = ProxyHeadersMiddleware(cast("Any", app), list(proxies))
    return cast("App", served)
