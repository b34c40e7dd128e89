"""`memory-bridge serve`: one process that holds the memory and speaks MCP, on stdio or HTTP."""

# ruff: noqa: PLC0415  nothing may be imported that could print before stdout is out of its reach

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_gateway.pipes import Pipes, claim_pipes

if TYPE_CHECKING:
    from memory_embedder.settings import EmbedderSettings
    from memory_gateway.bounds.rates import Rate, Rates
    from memory_gateway.memory import Memory
    from memory_gateway.observation.observer import Observer
    from memory_gateway.settings import GatewaySettings
    from memory_store.settings import StoreSettings

    Settings = tuple[GatewaySettings, StoreSettings, EmbedderSettings]

BAD_SETTING = 2
CANNOT_SERVE = 1
LAST_ANSWERS_MARGIN = 1.0
"""Seconds beyond the patience of a write within which its answer comes."""
CLOSED = "Standard input or output is closed, so there is no client; serve --http needs neither."


def main(argv: Sequence[str]) -> int:
    """Serves until the client is gone or a signal comes; returns the exit code.

    `argv` is what follows `serve`. 2 stands for a bad setting, 1 for what cannot be served.
    """
    arguments = _parser().parse_args(argv)
    pipes = claim_pipes()
    try:
        settings = _read_settings(arguments)
    except ValueError as error:
        return _complain(error, BAD_SETTING)
    if settings[0].transport == "http":
        return _serve(settings, partial(_serve_http, settings))
    if pipes is None:
        return _complain(CLOSED, CANNOT_SERVE)
    return _serve(settings, partial(_serve_stdio, settings, pipes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memory-bridge serve", description="Serve a shared memory over MCP."
    )
    parser.add_argument(
        "database", nargs="?", type=Path, help="the SQLite file (default: MCP_MEMORY_DB)"
    )
    parser.add_argument(
        "--http", action="store_true", help="listen on MCP_HTTP_HOST:MCP_HTTP_PORT, not on stdio"
    )
    return parser


def _read_settings(arguments: argparse.Namespace) -> "Settings":
    """Raises `ValueError` with a sentence."""
    from memory_embedder import settings as embedder
    from memory_gateway import settings as gateway
    from memory_store.settings import ServerSettings, StoreSettings

    known = gateway.variable_names(
        gateway.GatewaySettings, StoreSettings, ServerSettings, embedder.EmbedderSettings
    )
    for name, near in gateway.misspelled(known).items():
        sys.stderr.write(f"{name} is not a setting and has no effect. Did you mean {near}?\n")
    transport = {"transport": "http"} if arguments.http else {}
    # The file that is named on the line wins over an address in the environment.
    named = {"memory_db": arguments.database, "database_url": None}
    database = named if arguments.database else {}
    return (
        gateway.read(gateway.GatewaySettings, transport),
        gateway.read(StoreSettings, database),
        embedder.read(),
    )


def _serve(settings: "Settings", serve: Callable[["Memory", "Observer"], int]) -> int:
    from memory_gateway.embedded import CannotOpen, open_memory
    from memory_gateway.observation.start import CANNOT_OBSERVE, observing

    gateway, store, embedder = settings
    try:
        with observing(gateway) as observer, open_memory(store, embedder) as memory:
            return serve(memory, observer)
    except (CannotOpen, *CANNOT_OBSERVE) as error:
        return _complain(error, CANNOT_SERVE)


def _serve_stdio(settings: "Settings", pipes: Pipes, memory: "Memory", observer: "Observer") -> int:
    import anyio

    from memory_gateway.greeting import NO_CLIENT
    from memory_gateway.mcp import MemoryServer
    from memory_gateway.stdio import StdioConnection
    from memory_gateway.tools.facts import tools

    gateway, store, _ = settings
    allowed = tools(demo=gateway.enable_demo_tools)
    server = MemoryServer(memory, allowed, gateway.client_id, observer)
    if os.isatty(pipes.incoming):
        sys.stderr.write(NO_CLIENT)
    last_answers_seconds = store.sqlite_busy_timeout / 1000 + LAST_ANSWERS_MARGIN

    async def serve() -> None:
        await StdioConnection(server, pipes, last_answers_seconds).serve()

    anyio.run(serve)
    return 0


def _serve_http(settings: "Settings", memory: "Memory", observer: "Observer") -> int:
    from memory_gateway.app import Application, Door
    from memory_gateway.bounds.rates import Rate
    from memory_gateway.greeting import how_to_connect
    from memory_gateway.listener import CannotListen, listen, serve_http, url_of
    from memory_gateway.mcp import MemoryServer
    from memory_gateway.tokens import ClientTokens, InstallationTokens, Tokens
    from memory_gateway.tools.facts import tools

    gateway, store, _ = settings
    hosts = (gateway.http_host, *gateway.allowed_hosts)
    verifier = Tokens(InstallationTokens(gateway.tokens), ClientTokens(memory.store))
    rate = Rate(gateway.rate_per_second, gateway.rate_burst)
    door = Door(
        verifier,
        hosts,
        gateway.allowed_origins,
        gateway.trusted_proxies,
        gateway.max_sessions,
        _rates(gateway, rate),
        rate,
        gateway.max_in_flight,
    )
    allowed = tools(demo=gateway.enable_demo_tools)
    server = MemoryServer(memory, allowed, gateway.client_id, observer)
    try:
        listening = listen(gateway.http_host, gateway.http_port)
    except CannotListen as error:
        return _complain(error, CANNOT_SERVE)
    greeting = how_to_connect(url_of(listening), store.place, gateway.auth_token_file)
    sys.stderr.write(greeting)
    serve_http(Application(server, memory, door, observer), listening)
    return 0


def _rates(settings: "GatewaySettings", rate: "Rate") -> "Rates":
    if settings.redis_url is None:
        from memory_gateway.bounds.rates import LocalRates

        return LocalRates(rate)
    from memory_gateway.bounds.redis_rates import RedisRates

    return RedisRates(settings.redis_url.get_secret_value(), rate)


def _complain(error: Exception | str, code: int) -> int:
    sys.stderr.write(f"memory-bridge: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
