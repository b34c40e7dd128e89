"""The gateway without its door: nobody is asked for a token, nothing is bounded, observed or said.

Only for measuring what these cost.
"""

import logging
import sys

from memory_gateway import main, mcp
from memory_gateway.app import Application
from memory_gateway.asgi import Receive, Scope, Send
from memory_gateway.principals import PRINCIPAL, Principal

ANYBODY = Principal("anybody")


async def let_in(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Straight to the routes, which stand behind all that is left out."""
    await app._in_flight._app({**scope, PRINCIPAL: ANYBODY}, receive, send)


if __name__ == "__main__":
    Application.__call__ = let_in
    mcp.McpObserver.__call__ = lambda _self, ctx, call_next: call_next(ctx)
    logging.disable()
    sys.exit(main.main(sys.argv[1:]))
