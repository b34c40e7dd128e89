"""The least that the SDK's server can be: one tool, on stdio."""

from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def echo(text: str) -> str:
    return text


if __name__ == "__main__":
    server.run()
