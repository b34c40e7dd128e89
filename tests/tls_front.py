"""A reverse proxy that ends TLS before a server, as Tailscale's Funnel does: it passes the public
`Host` on, and says who the visitor is in headers of which it takes none from the visitor."""

import datetime as dt
import http.client
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

VISITOR = "203.0.113.7"
PIECE = 65_536
OF_THE_FRONT = ("x-forwarded-", "tailscale-")
HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
VALID = dt.timedelta(days=1)


@dataclass(frozen=True)
class TlsFront:
    """`certificate` is a file with the authority that its clients must trust."""

    name: str
    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://{self.name}:{self.port}/mcp"


class _Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True
    behind: int

    def handle_error(self, *_: Any) -> None:
        """A visitor who hangs up is no fault of ours."""


class _Visit(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or else a body waits 40 ms for its head to be acknowledged
    server: _Proxy

    def pass_on(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.behind)) as behind:
            length = int(self.headers.get("Content-Length") or 0)
            behind.request(self.command, self.path, self.rfile.read(length), self._headers())
            self._answer(behind.getresponse())

    do_GET = do_POST = do_DELETE = pass_on  # noqa: N815  # they are looked up by these names

    def _headers(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in HOP_BY_HOP and not name.lower().startswith(OF_THE_FRONT)
        }
        return kept | {
            "X-Forwarded-For": VISITOR,
            "X-Forwarded-Host": self.headers["Host"],
            "X-Forwarded-Proto": "https",
            "Tailscale-Funnel-Request": "?1",
        }

    def _answer(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        has_length = response.length is not None or response.status in NO_BODY
        if not has_length:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(PIECE):
            self.wfile.write(piece if has_length else b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        if not has_length:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """It says nothing."""


@contextmanager
def tls_front(name: str, behind: int, folder: Path) -> Iterator[TlsFront]:
    """Listens on a free port of this machine, in front of the server on port `behind`."""
    certificate, key = _certified(name, folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _Proxy(("127.0.0.1", 0), _Visit) as proxy:
        proxy.behind = behind
        # The thread of a visit shakes hands, so that a slow visitor keeps no other waiting.
        proxy.socket = context.wrap_socket(
            proxy.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield TlsFront(name, proxy.server_address[1], certificate)
        finally:
            proxy.shutdown()
            thread.join()


def _certified(name: str, folder: Path) -> tuple[Path, Path]:
    """Writes a certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "front.crt", folder / "front.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
