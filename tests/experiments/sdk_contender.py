"""Counts a key up with the official SDK's client, as `raw_contender.py` does with ours."""

import json
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

SECONDS = 60.0


class Counter:
    """`written`, `refused` and `errors` are what its writes met."""

    def __init__(self, client, namespace, key):
        self.written = self.refused = self.errors = 0
        self._client = client
        self._fact = {"namespace": namespace, "key": key}

    async def held(self):
        """The fact as it is now, None if there is none."""
        answer = await self._client.call_tool("memory_get", self._fact)
        return answer.structured_content["fact"]

    async def count_up(self, fact):
        """Returns the fact that it made, however often that took; None after an error."""
        while True:
            value, version = (int(fact["value"]), fact["version"]) if fact else (0, 0)
            write = {**self._fact, "value": str(value + 1), "expected_version": version}
            answer = await self._client.call_tool("memory_set", write)
            if not answer.is_error:
                self.written += 1
                return answer.structured_content["fact"]
            problem = answer.structured_content["problem"]
            if problem["code"] != "conflict":
                raise MCPError(0, problem["message"])
            self.refused += 1
            fact = problem["current"]

    async def work(self, writes):
        fact = await self.held()
        for _ in range(writes):
            try:
                fact = await self.count_up(fact)
            except MCPError:
                self.errors += 1


async def main(url, token_file, namespace, key, writes):
    token = Path(token_file).read_text("utf-8").strip()  # noqa: ASYNC240  nothing else runs yet
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SECONDS) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        counter = Counter(client, namespace, key)
        await counter.work(int(writes))
    json.dump(
        {name: getattr(counter, name) for name in ("written", "refused", "errors")}, sys.stdout
    )


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
