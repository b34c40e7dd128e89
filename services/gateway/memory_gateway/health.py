"""Two questions that anybody may ask: whether the process is alive, and whether it can serve."""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memory_gateway.threads import DaemonThreads
from memory_store.contract import Store

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
ASKED_AT_ONCE = 4


def health_routes(store: Store) -> list[Route]:
    return [Route("/healthz", _alive), Route("/readyz", Readiness(store).answer)]


async def _alive(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "alive"})


class Readiness:
    """Ready means that the store answers. The log has each change of that, once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = DaemonThreads("readiness", ASKED_AT_ONCE)
        self._was_ready = True

    async def answer(self, _request: Request) -> JSONResponse:
        reason = await self._complaint()
        ready = reason is None
        if ready != self._was_ready:
            self._was_ready = ready
            logger.warning("the store %s", "answers again" if ready else f"fails: {reason}")
        if ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "the store does not answer"}, status_code=503)

    async def _complaint(self) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._threads.run(self._store.namespace_list)
        except TimeoutError:
            return f"no answer within {PATIENCE_SECONDS:g} seconds"
        except Exception as error:  # noqa: BLE001  whatever it is, the store is not ready
            return repr(error)
        return None
