"""A client of the stream of events."""

import json
import queue
import threading
from contextlib import contextmanager

import httpx2

from gateway_serving import AUTHORIZED, SECONDS

PATH = "/api/v1/events/stream"


class Follower:
    """A client of the stream. What arrives is read on a thread, so that waiting has an end."""

    def __init__(self, response):
        self._blocks = queue.SimpleQueue()
        self.last_id = None
        threading.Thread(target=self._read, args=[response], daemon=True).start()

    def _read(self, response):
        block = {}
        try:
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    block[name] = value
                else:
                    self._blocks.put(block)
                    block = {}
        except httpx2.HTTPError:
            pass
        self._blocks.put(None)

    def block(self):
        block = self._blocks.get(timeout=SECONDS)
        if block is not None:
            self.last_id = block.get("id", self.last_id)
        return block

    def event(self):
        while "data" not in (block := self.block()):
            pass
        return json.loads(block["data"])

    def keys(self, count):
        return [self.event()["key"] for _ in range(count)]


@contextmanager
def following(server, token=None, last_event_id=None, **query):
    headers = {"Authorization": f"Bearer {token}"} if token else dict(AUTHORIZED)
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    base = server.url.removesuffix("/mcp")
    with (
        httpx2.Client(base_url=base, timeout=SECONDS, headers=headers) as web,
        web.stream("GET", PATH, params=query) as response,
    ):
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        follower = Follower(response)
        if "after" not in query and last_event_id is None:
            assert follower.block()[""] == "following"
        yield follower
