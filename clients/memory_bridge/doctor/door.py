"""The server's door: whether it is ours, whom it lets in, and by which token."""

import os
import stat
from http import HTTPStatus
from pathlib import Path

from memory_bridge.doctor.findings import Finding, failed, ok, skipped
from memory_bridge.doctor.target import Reply, Target
from memory_bridge.errors import ClientError
from memory_bridge.http import authorization

_SECRETS_OF_A_CONTAINER = Path("/run/secrets")
_PROXY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)

_ANOTHER = (
    "Another program has this address: stop it, give the server another port (MCP_HTTP_PORT,"
    " MEMORY_BRIDGE_PORT), or correct --url."
)
_GATEWAY_GONE = (
    "Something takes the connection, and no gateway answers behind it: on its host see whether it"
    " runs (`docker compose ps`, `make logs`) and what `memory-bridge doctor` says there."
)
_SIDECAR = (
    " If all is well there, restart the sidecar (`docker compose restart tailscale`): Funnel"
    " sometimes needs that, and the watchdog does the same."
)
_SLOW = "Too much is asked at once, or of this token: see MCP_RATE_PER_SECOND, and try again."
_OPEN_DOOR = (
    "Something in front of it sends a token along, or it is no Memory Bridge: whoever knows the"
    " address reads and writes the memory. Take it off the network first."
)
_NONE_GIVEN = (
    "Name the file that holds it: --token-file FILE or MCP_AUTH_TOKEN_FILE. `make run` keeps it in"
    " .memory-bridge/token, `make up` in infra/compose/secrets/auth_token."
)
_NOT_GOOD = (
    "Take the token that the server has now: `make up` and `memory-bridge daemon status` say where"
    " it lies. A client's own token may be revoked or over: `memory-bridge token list` says so."
)
_NOBODY_KNOWS = "The server cannot ask its store whether it is good: see to the store first."


def server(target: Target) -> Finding:
    try:
        reply = target.ask("healthz")
    except ClientError as error:
        return failed(str(error), _nobody_behind(target))
    if reply.is_good and reply.told.get("status") == "alive":
        return ok(f"A Memory Bridge answers at {target.origin.name}.")
    if location := reply.headers["Location"]:
        return failed("The server has moved.", f"Use {location} in place of this address.")
    says = f"Something else than a Memory Bridge answers, with status {reply.status}."
    return failed(says, _nobody_behind(target) if reply.status in _PROXY else _ANOTHER)


def _nobody_behind(target: Target) -> str:
    return f"{_GATEWAY_GONE}{_SIDECAR if target.is_funnel else ''}"


def allow_list(target: Target) -> Finding:
    """Asks for what is not open, without a token: past the list of hosts stands the door."""
    host, reply = target.origin.host, target.ask("mcp")
    if reply.status == HTTPStatus.UNAUTHORIZED:
        return ok(f"The server answers to the name {host}, and to nobody without a token.")
    if reply.status == HTTPStatus.MISDIRECTED_REQUEST:
        return failed(
            f"The server does not answer to the name {host} (421).",
            f"Add {host} to MCP_ALLOWED_HOSTS and start the gateway again. A proxy in front must"
            " hand on the Host header as it came.",
        )
    if reply.is_good or reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
        return failed("The server answers without a token.", _OPEN_DOOR)
    return failed(f"The server refuses the name {host}: {_reason(reply)}", _ANOTHER)


def token_file(target: Target) -> Finding:
    if target.credentials.trouble:
        return failed(target.credentials.trouble, _NONE_GIVEN)
    if target.credentials.file is None:
        return skipped("The token does not come from a file.")
    file = Path(target.credentials.file).expanduser().absolute()
    if os.name == "nt" or not _is_open_to_others(file):
        return ok(f"Nobody else may read {file}.")
    return failed(f"Others on this machine may read {file}.", f"Say `chmod 600 {file}`.")


def _is_open_to_others(file: Path) -> bool:
    """A folder that they cannot enter keeps them out as well; a container has no others. Those of
    the file's group were chosen, as the user of a service is."""
    if file.is_relative_to(_SECRETS_OF_A_CONTAINER):
        return False
    way_in = all(_mode(folder) & stat.S_IXOTH for folder in file.parents)
    return way_in and bool(_mode(file) & stat.S_IROTH)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def token(target: Target) -> Finding:
    if target.credentials.trouble:
        return skipped("There is none to try: see the token file.")
    if target.credentials.token is None:
        return failed("There is no token to try.", _NONE_GIVEN)
    try:
        authorization(target.credentials.token)
    except ValueError as error:
        return failed(str(error), _NOT_GOOD)
    reply = target.ask("api/v1/version", proved=True)
    if reply.is_good:
        return ok(f"The token is good; the server has version {reply.told.get('version')}.")
    says = f"The token is refused ({reply.status}): {_reason(reply)}"
    cures = {
        HTTPStatus.TOO_MANY_REQUESTS: _SLOW,
        HTTPStatus.SERVICE_UNAVAILABLE: _NOBODY_KNOWS,
    }
    return failed(says, cures.get(HTTPStatus(reply.status), _NOT_GOOD))


def _reason(reply: Reply) -> str:
    error = reply.told.get("error")
    told: object = error.get("message") if isinstance(error, dict) else reply.told.get("detail")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # JSON is Any
    return told if isinstance(told, str) else f"status {reply.status}."
