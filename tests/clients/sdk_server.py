"""The official SDK's bare server with one tool. A script: `stdio`, or `http` on a given port."""

import socket
import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def double(number: int) -> dict[str, int]:
    if number < 0:
        raise ValueError
    return {"doubled": number * 2}


@server.resource("memory://{key}")
def fact(key: str) -> str:
    return f"the fact {key}"


def serve_http():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    serve_http() if sys.argv[1] == "http" else server.run("stdio")
