"""`memory-bridge serve`: one process that holds the memory and speaks MCP, on stdio or HTTP."""

# ruff: noqa: PLC0415  nothing may be imported that could print before stdout is out of its reach

import argparse
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_gateway.pipes import Pipes, claim_pipes

if TYPE_CHECKING:
    from memory_embedder.settings import EmbedderSettings, RedisSettings
    from memory_gateway.bounds.rates import Rate, Rates
    from memory_gateway.memory import Memory
    from memory_gateway.observation.observer import Observer
    from memory_gateway.settings import GatewaySettings
    from memory_store.settings import ClientSettings, StoreSettings

    Settings = tuple[
        GatewaySettings, StoreSettings, EmbedderSettings, ClientSettings, RedisSettings
    ]

BAD_SETTING = 2
CANNOT_SERVE = 1
LAST_ANSWERS_MARGIN = 1.0
"""Seconds beyond the patience of a write within which its answer comes."""
TWO_PLACES = (
    "A memory is in one place: name a store (MCP_STORE_URL) or a database (MCP_MEMORY_DB or"
    " MCP_DATABASE_URL), not both."
)
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
        return _ended(_serve(settings, partial(_serve_http, settings)))
    if pipes is None:
        return _complain(CLOSED, CANNOT_SERVE)
    return _ended(_serve(settings, partial(_serve_stdio, settings, pipes)))


def _ended(code: int) -> int:
    """Ends the process at once if a model is still at work: all is closed and written, and an
    interpreter that ends in order would break into the model's native code, which aborts."""
    from memory_embedder.worker import THREAD_NAME

    if any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code)
    return code


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
    from memory_store.settings import ClientSettings, ServerSettings, StoreSettings

    known = gateway.variable_names(
        gateway.GatewaySettings,
        StoreSettings,
        ServerSettings,
        ClientSettings,
        embedder.EmbedderSettings,
        embedder.RedisSettings,
        embedder.WorkerSettings,
    )
    for name, near in gateway.misspelled(known).items():
        sys.stderr.write(f"{name} is not a setting and has no effect. Did you mean {near}?\n")
    transport = {"transport": "http"} if arguments.http else {}
    # The file that is named on the line wins over an address in the environment.
    named = {"memory_db": arguments.database, "database_url": None}
    database = named if arguments.database else {}
    store = gateway.read(StoreSettings, database)
    return (
        gateway.read(gateway.GatewaySettings, transport),
        store,
        embedder.read(),
        _read_address(store, named_on_the_line=bool(database)),
        embedder.read_redis(),
    )


def _read_address(store: "StoreSettings", *, named_on_the_line: bool) -> "ClientSettings":
    """Raises `ValueError` with a sentence."""
    from memory_store.settings import ClientSettings, SettingsError, read

    try:
        address = read(ClientSettings, **({"url": None} if named_on_the_line else {}))
    except SettingsError as error:
        raise ValueError(str(error)) from None
    if address.url and (store.memory_db or store.database_url):
        raise ValueError(TWO_PLACES)
    return address


def _serve(settings: "Settings", serve: Callable[["Memory", "Observer"], int]) -> int:
    from memory_gateway.memory import CannotOpen
    from memory_gateway.observation.start import CANNOT_OBSERVE, observing

    try:
        with observing(settings[0]) as observer, _memory(settings) as memory:
            return serve(memory, observer)
    except (CannotOpen, *CANNOT_OBSERVE) as error:
        return _complain(error, CANNOT_SERVE)


def _memory(settings: "Settings") -> AbstractContextManager["Memory"]:
    """The memory where the settings say that it is: in this process or in another."""
    gateway, store, embedder, address, redis = settings
    if address.url:
        from memory_gateway.remote import reach_memory

        return reach_memory(address, embedder, redis, drains=gateway.embed_changes)
    from memory_gateway.embedded import open_memory

    return open_memory(store, embedder)


def _serve_stdio(settings: "Settings", pipes: Pipes, memory: "Memory", observer: "Observer") -> int:
    import anyio

    from memory_gateway.greeting import NO_CLIENT, tell
    from memory_gateway.mcp import MemoryServer
    from memory_gateway.stdio import StdioConnection
    from memory_gateway.tools.facts import tools

    gateway, store, *_ = settings
    allowed = tools(demo=gateway.enable_demo_tools)
    server = MemoryServer(memory, allowed, gateway.client_id, observer)
    if os.isatty(pipes.incoming):
        tell(NO_CLIENT)
    last_answers_seconds = store.sqlite_busy_timeout / 1000 + LAST_ANSWERS_MARGIN

    async def serve() -> None:
        await StdioConnection(server, pipes, last_answers_seconds).serve()

    anyio.run(serve)
    return 0


def _serve_http(settings: "Settings", memory: "Memory", observer: "Observer") -> int:
    from memory_gateway.app import Application, Door
    from memory_gateway.bounds.rates import Rate
    from memory_gateway.greeting import how_to_connect, tell
    from memory_gateway.listener import CannotListen, listen, serve_http, url_of
    from memory_gateway.mcp import MemoryServer
    from memory_gateway.tokens import ClientTokens, InstallationTokens, Tokens
    from memory_gateway.tools.facts import tools

    gateway, store, _, address, redis = settings
    hosts = (gateway.http_host, *gateway.allowed_hosts)
    verifier = Tokens(InstallationTokens(gateway.tokens), ClientTokens(memory.store))
    rate = Rate(gateway.rate_per_second, gateway.rate_burst)
    door = Door(
        verifier=verifier,
        hosts=hosts,
        origins=gateway.allowed_origins,
        proxies=gateway.trusted_proxies,
        most_sessions=gateway.max_sessions,
        rates=_rates(redis, rate),
        rate=rate,
        most_in_flight=gateway.max_in_flight,
        most_streams=gateway.max_streams,
    )
    allowed = tools(demo=gateway.enable_demo_tools)
    server = MemoryServer(memory, allowed, gateway.client_id, observer)
    try:
        listening = listen(gateway.http_host, gateway.http_port)
    except CannotListen as error:
        return _complain(error, CANNOT_SERVE)
    place = address.url or store.place
    tell(how_to_connect(url_of(listening), place, gateway.auth_token_file))
    application = Application(server, memory, door, observer)
    gc.freeze()  # what is there by now stays, and looking through it would hold up all calls
    serve_http(application, listening)
    return 0


def _rates(redis: "RedisSettings", rate: "Rate") -> "Rates":
    if redis.url is None:
        from memory_gateway.bounds.rates import LocalRates

        return LocalRates(rate)
    from memory_gateway.bounds.redis_rates import RedisRates

    return RedisRates(redis.url.get_secret_value(), rate)


def _complain(error: Exception | str, code: int) -> int:
    sys.stderr.write(f"memory-bridge: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
