"""The words of JSON-RPC 2.0 and of the two eras of MCP, as plain dictionaries."""

import base64
import json
import re
from typing import Any, Literal, cast

from memory_bridge.errors import MCPError, ProtocolError

Message = dict[str, Any]
Era = Literal["handshake", "modern"]

HANDSHAKE_VERSION = "2025-11-25"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE_VERSION)
MODERN_VERSION = "2026-07-28"

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=")


def request(request_id: int | str, method: str, params: Message | None) -> Message:
    return {"id": request_id, **notification(method, params)}


def notification(method: str, params: Message | None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def reply(request_id: Any, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def refusal(request_id: Any, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def encode(message: Message) -> bytes:
    """Returns one line of ASCII: every character beyond it, lone surrogates too, is escaped."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")


def parse(text: bytes | str) -> Message:
    """Returns the message; raises `ProtocolError` for anything that is not one."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"The server sent what is not JSON: {_excerpt(text)}") from error
    message = as_object(message)
    if message is None or message.get("jsonrpc") != "2.0":
        raise ProtocolError(f"The server sent what is not JSON-RPC 2.0: {_excerpt(text)}")
    return message


def as_object(value: Any) -> Message | None:
    return cast("Message", value) if isinstance(value, dict) else None


def params_of(message: Message) -> Message:
    return as_object(message.get("params")) or {}


def is_answer(message: Message) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def result_of(answer: Message) -> Message:
    """Returns the result; raises `MCPError` for an error, `ProtocolError` for neither."""
    if "error" in answer:
        raise _mcp_error(answer["error"])
    result = as_object(answer.get("result"))
    if result is None:
        raise ProtocolError("The server's answer holds neither a result object nor an error.")
    if result.get("resultType", "complete") != "complete":
        raise ProtocolError("The server asks for input, which this client does not offer.")
    return result


def _mcp_error(error: Any) -> MCPError:
    fields = as_object(error) or {"message": error}
    code = fields.get("code")
    message = str(fields.get("message") or "The server gave no reason.")
    return MCPError(code if isinstance(code, int) else INTERNAL_ERROR, message, fields.get("data"))


def with_envelope(params: Message | None, client_info: Message) -> Message:
    """Returns the parameters in the envelope that the modern era wants on every request."""
    params = params or {}
    envelope = {_VERSION_KEY: MODERN_VERSION, _CLIENT_KEY: client_info, _CAPABILITIES_KEY: {}}
    return {**params, "_meta": {**params.get("_meta", {}), **envelope}}


def envelope_version(message: Message) -> str | None:
    """Returns the version that a modern message names; None for one of the handshake era."""
    meta = as_object(params_of(message).get("_meta")) or {}
    version = meta.get(_VERSION_KEY)
    return version if isinstance(version, str) else None


def envelope_of(message: Message) -> Message:
    """Returns the envelope of a modern message, for another one in the same name; else empty."""
    meta = as_object(params_of(message).get("_meta")) or {}
    names = (_VERSION_KEY, _CLIENT_KEY, _CAPABILITIES_KEY)
    return {name: meta[name] for name in names if name in meta}


def routing_headers(message: Message) -> dict[str, str]:
    """Returns the HTTP headers that repeat what a modern message says."""
    version = envelope_version(message)
    if version is None:
        return {}
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": message["method"]}
    # Without a name there is no header: the server says better than we could what is missing.
    name = message["params"].get(_NAMED.get(message["method"]))
    return headers if name is None else {**headers, "Mcp-Name": _header_value(str(name))}


def _header_value(text: str) -> str:
    if _PLAIN_HEADER.fullmatch(text) and not _ENCODED_HEADER.fullmatch(text):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def _excerpt(text: bytes | str) -> str:
    return ascii(text[:80])
