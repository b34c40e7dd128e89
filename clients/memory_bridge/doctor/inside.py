"""What only the server sees: its store, queue and model, its disk and memory."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from memory_bridge.doctor.findings import Finding, failed, ok, skipped, warning
from memory_bridge.doctor.target import Reply, Target

_MEGABYTE = 1 << 20
LEAST_DISK = 200 * _MEGABYTE
ENOUGH_DISK = 1024 * _MEGABYTE
LEAST_MEMORY_SHARE = 0.05
ENOUGH_MEMORY_SHARE = 0.1
_FURTHER_TRIES = 3
_METRIC = re.compile(r"^memory_bridge_(\w+) ([0-9.e+]+)$", re.MULTILINE)
_OUT_OF_REACH = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_STORE = (
    "See that the store runs and what it says (`docker compose ps store`, `make logs`), that its"
    " disk is not full, and that gateway and store have the same MCP_STORE_SECRET."
)
_QUEUE = (
    "See that Redis runs (`docker compose up --detach redis`) and that MCP_REDIS_URL and its"
    " password are right. Nothing is lost: search goes by words, and embedding is made up for."
)
_WORKER = (
    "Start a worker (`docker compose up --detach embedder`; without containers"
    " `python -m memory_embedder.main`); it may have been killed for its memory: `make logs`."
)
_MODEL = (
    "Build the model (`make setup`, or `python -m memory_embedder.prepare`) where MCP_MODEL_DIR"
    " says, or set MCP_EMBEDDINGS=off to do without."
)
_SET_ASIDE = "Start the worker again, which tries them anew; `make logs` has what they failed on."
_DISK = (
    "Make room: old backups and archives, images (`docker image prune`), logs"
    " (`journalctl --vacuum-size=200M`), old history (`memory-bridge retain --days N`); or have a"
    " larger disk. A full disk loses nothing, but every write is refused."
)
_MEMORY = (
    "See what takes it (`docker stats`, `free -m`); lower EMBEDDER_MEMORY or the number of"
    " workers, set up swap (`zramctl`), or run without a model (MCP_EMBEDDINGS=off)."
)


def store(target: Target) -> Finding:
    if _conditions(target).get("store") == "ok":
        return ok("The store answers.")
    return failed("The store does not answer the gateway.", _STORE)


def queue(target: Target) -> Finding:
    match _conditions(target).get("queue"):
        case None:
            return ok("There is none: the server has its model in itself.")
        case "ok":
            return ok("The queue to the embedder answers.")
        case _:
            return failed("The queue to the embedder (Redis) does not answer.", _QUEUE)


def model(target: Target) -> Finding:
    conditions = _conditions(target)
    cure = _WORKER if "queue" in conditions else _MODEL
    match conditions.get("model"):
        case "off":
            return ok("Embeddings are switched off: search goes by words.")
        case "down":
            return failed("There is no model at work: search goes by words alone.", cure)
        case _:
            return _tried(target, cure)


def _tried(target: Target, cure: str) -> Finding:
    """Searches by meaning, as a client would."""
    reply = _search(target)
    if not reply.is_good:
        return _unseen(reply)
    stats = target.ask("api/v1/stats", proved=True).told
    degraded = reply.told.get("degraded") or stats.get("degraded")
    if degraded and stats.get("facts"):
        return warning(f"Search goes by words alone: {degraded}", cure)
    backlog: dict[str, Any] = stats.get("backlog") or {}
    if backlog.get("failed"):
        says = f"{backlog['failed']} facts cannot be embedded: {backlog.get('failure')}"
        return warning(says, _SET_ASIDE)
    return ok(f"Search by meaning works; {backlog.get('pending', 0)} facts await their embedding.")


def _search(target: Target) -> Reply:
    """A model that is still loading keeps one question waiting, and answers the next."""
    wanted = urlencode({"query": "is anybody there", "mode": "semantic", "top_k": 1})
    reply = target.ask(f"api/v1/search?{wanted}", proved=True)
    for _ in range(_FURTHER_TRIES):
        if not reply.told.get("degraded"):
            break
        reply = target.ask(f"api/v1/search?{wanted}", proved=True)
    return reply


def disk(target: Target) -> Finding:
    return _of_store(target, _room)


def _room(stats: dict[str, Any]) -> Finding:
    free, taken = stats.get("free_bytes"), int(stats["bytes"])
    if not isinstance(free, int):
        return skipped(f"The database is on a server of its own ({stats.get('engine')}).")
    says = f"The store takes {_megabytes(taken)}, and its disk has {_megabytes(free)} left."
    if free < LEAST_DISK:
        return failed(says, _DISK)
    # A backup is as large as the store.
    return ok(says) if free >= max(ENOUGH_DISK, taken) else warning(says, _DISK)


def memory(target: Target) -> Finding:
    reply = target.ask("metrics", proved=True)
    if not reply.is_good:
        return _unseen(reply)
    metrics = dict(_METRIC.findall(reply.body.decode("utf-8", "replace")))
    whole, free = (metrics.get(f"machine_memory{name}_bytes") for name in ("", "_available"))
    if whole is None or free is None:
        return skipped("The server's system does not tell of its memory.")
    return _memory(float(whole), float(free))


def _memory(whole: float, free: float) -> Finding:
    says = f"Of {_megabytes(whole)} of memory {_megabytes(free)} are to be had."
    if free < whole * LEAST_MEMORY_SHARE:
        return failed(says, _MEMORY)
    return ok(says) if free >= whole * ENOUGH_MEMORY_SHARE else warning(says, _MEMORY)


def _conditions(target: Target) -> dict[str, Any]:
    told = target.ask("readyz").told
    return told.get("checks") or {"store": "ok" if told.get("status") == "ready" else "down"}


def _of_store(target: Target, look: Callable[[dict[str, Any]], Finding]) -> Finding:
    reply = target.ask("api/v1/stats", proved=True)
    return look(reply.told) if reply.is_good else _unseen(reply)


def _unseen(reply: Reply) -> Finding:
    if reply.status in _OUT_OF_REACH:
        return skipped("This token does not reach so far; the server's own does.")
    return skipped(f"The server does not say (status {reply.status}).")


def _megabytes(count: float) -> str:
    return f"{count / _MEGABYTE:,.0f} MB"
