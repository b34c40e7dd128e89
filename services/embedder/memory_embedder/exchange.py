"""What gateways and workers leave for each other in Redis beside the queues themselves."""

import importlib
import secrets
from typing import Any

from pydantic import BaseModel, ConfigDict

redis: Any = importlib.import_module("redis")  # its types are partly unknown

PREFIX = "memory-bridge:"
QUEUE_ERRORS: tuple[type[Exception], ...] = (redis.exceptions.RedisError, OSError)
ANSWER_SECONDS = 10
"""How long an answer lies there that nobody fetches."""
NUDGE_SECONDS = 5
"""How long a nudge that was lost keeps others from being sent."""
PRESENCE_SECONDS = 6
BEAT_SECONDS = 2.0
CONNECT_SECONDS = 0.25
MARGIN_SECONDS = 0.25


class Answer(BaseModel):
    """A vector (and the model that made it) or a sentence that says why there is none."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    vector: bytes = b""
    model: str = ""
    refusal: str | None = None


class Exchange:
    """`patience` is how long an answer of Redis may take, in seconds.

    Every method may be called from any thread and may raise one of `QUEUE_ERRORS`.
    """

    def __init__(self, url: str, patience: float) -> None:
        # One repetition, at once and only where a connection broke: of those that are kept, each
        # is broken after a restart of Redis.
        once = redis.retry.Retry(
            redis.backoff.NoBackoff(), 1, supported_errors=(redis.exceptions.ConnectionError,)
        )
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=patience + MARGIN_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            retry=once,
        )

    def close(self) -> None:
        self._redis.close()

    def ask(self, text: str, seconds: float) -> str:
        """Lays down a query, which is gone after so many seconds, and returns its name."""
        name = secrets.token_hex(12)
        self._redis.set(f"{PREFIX}asked:{name}", text, px=_milliseconds(seconds))
        return name

    def take(self, name: str) -> str | None:
        """Returns a query's text, or None when nobody waits for it any more."""
        text: bytes | None = self._redis.getdel(f"{PREFIX}asked:{name}")
        return None if text is None else text.decode()

    def answer(self, name: str, answer: Answer) -> None:
        key = f"{PREFIX}answer:{name}"
        with self._redis.pipeline() as both:
            both.lpush(key, answer.model_dump_json())
            both.expire(key, ANSWER_SECONDS)
            both.execute()

    def wait(self, name: str, seconds: float) -> Answer | None:
        """Returns the answer to a query, or None after so many seconds, at most `patience`."""
        found: tuple[bytes, bytes] | None = self._redis.brpop(
            f"{PREFIX}answer:{name}", max(seconds, 0.001)
        )
        return None if found is None else Answer.model_validate_json(found[1])

    def claim_nudge(self) -> bool:
        """Returns whether a nudge is to be sent: not while another one is on its way."""
        return bool(self._redis.set(f"{PREFIX}nudged", "", ex=NUDGE_SECONDS, nx=True))

    def clear_nudge(self) -> None:
        self._redis.delete(f"{PREFIX}nudged")

    def beat(self) -> None:
        """Says that a worker takes work, which is believed for `PRESENCE_SECONDS`."""
        self._redis.set(f"{PREFIX}worker", "", ex=PRESENCE_SECONDS)

    def is_present(self) -> bool:
        """Returns whether any worker takes work."""
        return bool(self._redis.exists(f"{PREFIX}worker"))


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
