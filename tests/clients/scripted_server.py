"""An MCP server over stdio that does what a tool's name says, good or bad. Run as a script."""

import json
import os
import signal
import sys


def send(message):
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    sys.stdout.write(line)
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def answer(request, structured, **more):
    result = {"content": [], "structuredContent": structured, **more}
    send({"id": request["id"], "result": result})


class Server:
    def __init__(self):
        self.held = []
        self.heard = []

    def initialize(self, request):
        version = os.environ.get("PEER_VERSION", request["params"]["protocolVersion"])
        send({"id": request["id"], "result": {"protocolVersion": version, "capabilities": {}}})

    def tools_list(self, request):
        cursor = request["params"].get("cursor")
        page = {"tools": [{"name": cursor or "first"}]}
        if cursor is None:
            page["nextCursor"] = "second"
        send({"id": request["id"], "result": page})

    def tools_call(self, request):
        getattr(self, request["params"]["name"])(request, request["params"]["arguments"])

    def echo(self, request, arguments):
        answer(request, arguments)

    def hold(self, request, arguments):
        """Answers nothing until so many calls have come, then all of them, the last one first."""
        self.held.append((request, arguments))
        if len(self.held) == arguments["of"]:
            for held, words in reversed(self.held):
                answer(held, words)
            self.held = []

    def chatty(self, request, _arguments):
        send({"method": "notifications/message", "params": {"data": "hello"}})
        send({"id": "p1", "method": "ping"})
        send({"id": 1, "method": "roots/list"})
        answer(request, {"replies": [receive(), receive()]})

    def garbage(self, request, arguments):
        sys.stdout.flush()
        nested = b"[" * 100_000
        for line in (
            b"hello",
            b"",
            b"\xff\xfe",
            b"[1]",
            b"{}",
            nested,
            b'{"jsonrpc":"2.0","id":[]}',
        ):
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
        send({"id": 424242, "result": {}})
        answer(request, arguments)

    def hang(self, _request, _arguments):
        pass

    def heard_so_far(self, request, _arguments):
        answer(request, {"heard": self.heard})

    def die(self, _request, _arguments):
        for number in range(30):
            sys.stderr.write(f"line {number} é\n")
        sys.stderr.flush()
        os._exit(3)

    def hang_up(self, _request, _arguments):
        os.close(1)

    def error(self, request, _arguments):
        error = {"code": -32602, "message": "No such thing.", "data": {"uri": "x"}}
        send({"id": request["id"], "error": error})

    def unreadable(self, _request, _arguments):
        send({"id": None, "error": {"code": -32700, "message": "Cannot read that."}})

    def nothing(self, request, _arguments):
        send({"id": request["id"], "result": "no object"})

    def failed(self, request, arguments):
        content = [{"type": "text", "text": "It is at version 2."}]
        answer(request, arguments, isError=True, content=content)

    def deaf(self, _request, _arguments):
        signal.pause()

    def stubborn(self, request, _arguments):
        """From now on neither the end of its input nor SIGTERM ends it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        answer(request, {})
        while True:
            signal.pause()

    def serve(self):
        while (message := receive()) is not None:
            if "id" in message:
                getattr(self, message["method"].replace("/", "_"))(message)
            else:
                self.heard.append(message)


if __name__ == "__main__":
    Server().serve()
