"""A web server that answers each MCP message as the test says."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Peer:
    """`answers[method]` is called with the exchange; `initialize` and notifications are served,
    GET is only if it is among them.

    For a tool the method is its name. `requests` lists (HTTP method, headers, message).
    """

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.session = "s1"
        self.connections = 0
        self.closing = threading.Event()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}/mcp"

    def sent(self, method):
        return [(h, m) for _, h, m in self.requests if m and m.get("method") == method]

    @contextlib.contextmanager
    def serving(self, tls=None):
        peer = self

        class Handler(Exchange):
            def setup(self):
                peer.connections += 1
                self.peer = peer
                super().setup()

        self.server = Listener(("127.0.0.1", 0), Handler)
        self.server.tls = tls
        self.scheme = "https" if tls else "http"
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self.server.shutdown()
            self.server.server_close()
            thread.join()


class Listener(ThreadingHTTPServer):
    request_queue_size = 64

    def finish_request(self, request, client_address):
        # The handshake belongs on the thread of its connection, where it may fail alone.
        with contextlib.suppress(OSError):
            secured = self.tls.wrap_socket(request, server_side=True) if self.tls else request
            super().finish_request(secured, client_address)


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_words):
        pass

    def do_DELETE(self):
        self.peer.requests.append(("DELETE", self.headers, None))
        self.empty(200)

    def do_GET(self):
        self.message = {}
        self.peer.requests.append(("GET", self.headers, None))
        self.peer.answers.get("GET", lambda exchange: exchange.empty(405))(self)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.message = json.loads(body)
        self.peer.requests.append(("POST", self.headers, self.message))
        method = self.message.get("method")
        if method == "tools/call":
            method = self.message["params"]["name"]
        self.peer.answers.get(method, Exchange.usual)(self)

    def usual(self):
        if self.message.get("method") == "initialize":
            version = self.message["params"]["protocolVersion"]
            self.result(
                {"protocolVersion": version, "capabilities": {}},
                headers={"Mcp-Session-Id": self.peer.session},
            )
        elif "id" in self.message and "method" in self.message:
            self.result(echoed(self.message))
        else:
            self.empty(202)

    def empty(self, status, headers=()):
        self.body(status, b"", headers={**dict(headers)})

    def result(self, result, headers=()):
        message = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        self.json(200, message, headers)

    def refuse(self, status, code=-32000, message="no", headers=()):
        error = {"code": code, "message": message}
        self.json(status, {"jsonrpc": "2.0", "id": None, "error": error}, headers)

    def json(self, status, message, headers=()):
        kind = {"Content-Type": "application/json; charset=utf-8"}
        self.body(status, json.dumps(message).encode(), {**kind, **dict(headers)})

    def body(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def stream(self, *pieces, end=True):
        """Sends pieces of an event stream, each a chunk; a callable piece is called."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if callable(piece):
                piece()
                continue
            data = piece.encode() if isinstance(piece, str) else piece
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if end:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def event(self, **message):
        return f"data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n"

    def answer_event(self):
        return self.event(id=self.message["id"], result=echoed(self.message))


def echoed(message):
    return {"content": [], "structuredContent": message.get("params", {}).get("arguments", {})}
