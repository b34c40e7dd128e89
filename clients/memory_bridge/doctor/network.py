"""The way to the server: its name, the connection, its certificate, and whose clock is right."""

import contextlib
import ipaddress
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue

from memory_bridge.doctor.findings import Finding, failed, ok, skipped, warning
from memory_bridge.doctor.target import Target
from memory_bridge.errors import TimedOut

CLOCK_TOLERANCE = timedelta(seconds=60)
_LATE = 6
"""Whoever renews a certificate does so with a third of its life left; with a sixth it is late."""
_NOT_YET, _EXPIRED = 9, 10
_OTHER_NAME, _OTHER_ADDRESS = 62, 64

_NO_NAME = (
    "See that the address has no typing error, and that this machine resolves names at all"
    " (a VPN or a firewall may keep it from that)."
)
_NO_FUNNEL_NAME = (
    "The node is not known to Funnel. After Funnel was first switched on the name takes up to ten"
    " minutes. Otherwise see in Tailscale's admin console that the machine is there under this very"
    " name (a node whose state was lost comes back as NAME-1), that MagicDNS and HTTPS are on, and"
    " that the policy gives its tag the attribute `funnel`."
)
_TAILNET = tuple(map(ipaddress.ip_network, ("100.64.0.0/10", "fd7a:115c:a1e0::/48")))
_INSIDE = (
    "This machine is in the tailnet and goes straight to the node, so what follows says nothing of"
    " Funnel: look from a machine outside too."
)
_NOT_STARTED = (
    "Start the server: `memory-bridge daemon start`, `make run`, or `make up` for the containers;"
    " --url names another port than this one."
)
_NO_FUNNEL_WAY = (
    "Funnel's relays do not answer. See that this network lets HTTPS on port 443 out; claude.ai"
    " reaches no other port."
)
_NO_WAY = (
    "See that the server runs and listens on an address that can be reached from here"
    " (MCP_HTTP_HOST), and that no firewall is between."
)
_FUNNEL_HANGS_UP = (
    "Funnel hangs up before it shows a certificate, because the node serves nothing there: see that"
    " the sidecar runs with its serve configuration (a mounted folder, not a mounted file), that"
    " AllowFunnel is in it, and that the policy gives the node's tag the attribute `funnel`. A node"
    " that lost its state too often gets no certificate for a week (five of one name)."
)
_HANGS_UP = "See that the address speaks TLS there; a server of ours alone does not: http://."
_RENEW = (
    "Renew the certificate. For a Funnel address restart the sidecar, which renews it by itself;"
    " a proxy in front has a client of its own for that (`certbot renew`, Caddy, …). If it is good"
    " by the calendar, this machine's clock is ahead."
)
_OTHER = "Use the address that the certificate was made for, or have one made for this name."
_UNKNOWN_ISSUER = (
    "Nobody whom this machine trusts has signed it. If it is your own authority, name its"
    " certificate in SSL_CERT_FILE; otherwise something between here and the server answers for it."
)
_PLAIN = (
    "Whoever is on the way can read the token. Reach it by https:// (a reverse proxy with TLS, or"
    " Funnel), or only through a private network."
)
_SET_CLOCK = (
    "Set the clock that is wrong (`timedatectl set-ntp true`): ends of tokens and certificates"
    " depend on both."
)

_CURES = {
    _NOT_YET: _SET_CLOCK,
    _EXPIRED: _RENEW,
    _OTHER_NAME: _OTHER,
    _OTHER_ADDRESS: _OTHER,
}


def dns(target: Target) -> Finding:
    host = target.origin.host
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return ok(f"{host} is an address already.")
    try:
        found = _addresses(target)
    except TimedOut:
        return failed(f"Nobody says in time what the address of {host} is.", _no_name(target))
    except OSError as error:
        told = error.strerror or str(error)
        return failed(f"The name {host} has no address: {told}.", _no_name(target))
    says = f"{host} is {', '.join(found)}."
    return warning(says, _INSIDE) if target.is_funnel and _in_tailnet(found) else ok(says)


def _in_tailnet(addresses: list[str]) -> bool:
    return any(
        ipaddress.ip_address(address.partition("%")[0]) in network
        for address in addresses
        for network in _TAILNET
    )


def _addresses(target: Target) -> list[str]:
    """Raises OSError, and `TimedOut`: the system's own resolver knows no deadline."""
    answers: SimpleQueue[list[str] | OSError] = SimpleQueue()
    host, port = target.origin.address

    def resolve() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(sorted({str(entry[4][0]) for entry in found}))
        except OSError as error:
            answers.put(error)

    threading.Thread(target=resolve, daemon=True).start()
    deadline = target.deadline()
    try:
        answer = answers.get(timeout=deadline.remaining())
    except Empty:
        raise deadline.expired() from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _no_name(target: Target) -> str:
    return _NO_FUNNEL_NAME if target.is_funnel else _NO_NAME


def connection(target: Target) -> Finding:
    host, port = target.origin.address
    try:
        _connected(target).close()
    except OSError as error:
        told = error.strerror or str(error) or "no answer in time"
        return failed(f"Port {port} of {host} cannot be reached: {told}.", _no_way(target))
    return ok(f"Port {port} of {host} takes connections.")


def _connected(target: Target) -> socket.socket:
    return socket.create_connection(target.origin.address, target.deadline().remaining())


def _no_way(target: Target) -> str:
    if target.is_local:
        return _NOT_STARTED
    return _NO_FUNNEL_WAY if target.is_funnel else _NO_WAY


def certificate(target: Target) -> Finding:
    if not target.origin.secure:
        return skipped("There is none: the address is a http:// one.")
    try:
        with (
            _connected(target) as raw,
            ssl.create_default_context().wrap_socket(
                raw, server_hostname=target.origin.host
            ) as secured,
        ):
            shown = secured.getpeercert() or {}
            begin, end = (_moment(str(shown[name])) for name in ("notBefore", "notAfter"))
    except ssl.SSLCertVerificationError as error:
        return failed(
            f"The certificate is not valid: {error.verify_message}.", _cure(error.verify_code)
        )
    except OSError as error:
        told = error.strerror or str(error) or "no answer in time"
        cure = _FUNNEL_HANGS_UP if target.is_funnel else _HANGS_UP
        return failed(f"No TLS comes about: {told}.", cure)
    return _of_age(begin, end, target.now())


def _of_age(begin: datetime, end: datetime, now: datetime) -> Finding:
    left = end - now
    says = f"The certificate is good until {end:%Y-%m-%d}, {left.days} more days."
    return ok(says) if left > (end - begin) / _LATE else warning(says, _RENEW)


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def _cure(code: int) -> str:
    return _CURES.get(code, _UNKNOWN_ISSUER)


def privacy(target: Target) -> Finding:
    if target.origin.secure:
        return ok("What is sent is encrypted on the way.")
    if target.is_local:
        return ok("What is sent stays on this machine.")
    return warning("What is sent, the token too, is not encrypted on the way.", _PLAIN)


def clock(target: Target) -> Finding:
    before = target.now()
    date = target.ask("healthz").headers["Date"]
    after = target.now()
    try:
        theirs = parsedate_to_datetime(date or "")
    except ValueError:
        return skipped("The server does not say what time it is.")
    ahead = theirs - before if theirs < before else max(theirs - after, timedelta())
    if abs(ahead) <= CLOCK_TOLERANCE:
        return ok("The clocks here and there agree.")
    direction = "ahead of" if ahead > timedelta() else "behind"
    seconds = abs(ahead).total_seconds()
    return failed(f"The server's clock is {seconds:.0f} seconds {direction} this one.", _SET_CLOCK)
