"""Two questions that anybody may ask: whether the process is alive, and whether it can serve."""

import asyncio
import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memory_embedder.contract import Condition
from memory_gateway.memory import Memory
from memory_gateway.threads import DaemonThreads

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
ASKED_AT_ONCE = 4


def health_routes(memory: Memory) -> list[Route]:
    return [Route("/healthz", _alive), Route("/readyz", Readiness(memory).answer)]


async def _alive(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "alive"})


class Readiness:
    """Ready means that the store answers, since search does without a queue or a model; the answer
    says how each of them is. The log has each change of the store's state, once."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._threads = DaemonThreads("readiness", ASKED_AT_ONCE)
        # Of its own: a store that hangs keeps the other's.
        self._embedding_threads = DaemonThreads("readiness-embedding", ASKED_AT_ONCE)
        self._was_ready = True

    async def answer(self, _request: Request) -> JSONResponse:
        reason, embedding = await asyncio.gather(self._complaint(), self._embedding())
        ready = reason is None
        if ready != self._was_ready:
            self._was_ready = ready
            logger.warning("the store %s", "answers again" if ready else f"fails: {reason}")
        checks: Mapping[str, Condition] = {"store": "ok" if ready else "down", **embedding}
        status = "ready" if ready else "the store does not answer"
        return JSONResponse({"status": status, "checks": checks}, 200 if ready else 503)

    async def _complaint(self) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._threads.run(self._memory.store.namespace_list)
        except TimeoutError:
            return f"no answer within {PATIENCE_SECONDS:g} seconds"
        except Exception as error:  # noqa: BLE001  whatever it is, the store is not ready
            return repr(error)
        return None

    async def _embedding(self) -> Mapping[str, Condition]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._embedding_threads.run(self._memory.embedder.conditions)
        except TimeoutError:
            return {"model": "unknown"}
