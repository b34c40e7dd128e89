"""What the raw client raises: one root, and a class for each thing a caller can do about it."""

from collections.abc import Sequence
from typing import Any, cast


class ClientError(Exception):
    """The root. Its text is a sentence for people."""


class MCPError(ClientError):
    """The server answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ToolFailed(ClientError):
    """The tool ran and its result says `isError`. `result` is the whole of it."""

    def __init__(self, tool: str, result: dict[str, Any]) -> None:
        super().__init__(_text(result) or f"The tool {tool} failed and did not say why.")
        self.tool = tool
        self.result = result
        self.structured = _object(result.get("structuredContent")) or None

    @property
    def problem(self) -> dict[str, Any]:
        """What a memory's tool says for programs: `code`, `retryable`, `current` …; else empty."""
        return _object((self.structured or {}).get("problem"))

    @property
    def current_value(self) -> Any:
        """The value that won when a condition did not hold; else None."""
        return _object(self.problem.get("current")).get("value")


class ConnectionLost(ClientError):
    """The connection ended before the answer: whether the request was carried out is unknown."""


class Unreachable(ConnectionLost):
    """No connection came about, so nothing was carried out."""


class ServerDied(ConnectionLost):
    """The child process ended. `exit_code` is None when it only closed its output.

    `last_words` are the last lines that it wrote to stderr.
    """

    def __init__(self, message: str, exit_code: int | None, last_words: Sequence[str]) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.last_words = tuple(last_words)


class SessionLost(ConnectionLost):
    """The server no longer knows the session; it refused the request without looking at it."""


class TimedOut(ClientError):
    """No answer within the time allowed: whether the request was carried out is unknown."""


class Unauthorized(ClientError):
    """The server refused the token, or wants one (HTTP 401)."""


class Forbidden(ClientError):
    """The token is good but not for this (HTTP 403)."""


class HTTPFailure(ClientError):
    """The server, or something before it, refused the request with this HTTP status.

    `retry_after` are the seconds after which it asks to be tried again, None if it does not.
    """

    def __init__(self, message: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ProtocolError(ClientError):
    """The peer does not speak MCP, or a version of it that this client does not know."""


def _text(result: dict[str, Any]) -> str:
    content = result.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    texts = [_object(block).get("text") for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
