"""A bucket on loopback, beside the identity of the machine that may add to it."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IDENTITY = "/computeMetadata/v1/instance/service-accounts/default/token"


@dataclass
class Bucket:
    """Objects may be added by who shows `token`, none replaced, read or deleted.

    `refusals` are statuses with which the next tries are refused. `has_identity` says whether the
    machine is one of Google's at all.
    """

    name: str = "the-bucket"
    token: str = "ya29.of-this-machine"
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    refusals: list[int] = field(default_factory=list[int])
    has_identity: bool = True
    port: int = 0

    @property
    def settings(self) -> dict[str, str]:
        return {
            "BACKUP_BUCKET": self.name,
            "BACKUP_STORAGE": f"http://127.0.0.1:{self.port}",
            "GCE_METADATA_HOST": f"127.0.0.1:{self.port}",
        }

    def add(self, path: str, body: bytes, digest: str | None, authorization: str | None) -> int:
        """Returns the status."""
        _, bucket, name = path.split("/", 2)
        if authorization != f"Bearer {self.token}":
            return 401
        if bucket != self.name:
            return 404
        if self.refusals:
            return self.refusals.pop(0)
        if digest != base64.b64encode(hashlib.md5(body).digest()).decode():
            return 400
        if name in self.objects:
            return 403
        self.objects[name] = body
        return 200


@contextmanager
def bucket_serving() -> Iterator[Bucket]:
    bucket = Bucket()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.path == IDENTITY and bucket.has_identity
            if self.headers["Metadata-Flavor"] != "Google" or not known:
                self.answer(404)
                return
            told = f'{{"access_token": "{bucket.token}", "expires_in": 3599}}'
            self.answer(200, told.encode())

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = self.headers["Content-MD5"], self.headers["Authorization"]
            self.answer(bucket.add(self.path, body, *headers))

        def answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    bucket.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
