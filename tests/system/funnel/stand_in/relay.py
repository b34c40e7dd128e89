"""Stands in for Tailscale's sidecar, WebSockets included: reads its serve file, ends TLS with a
certificate that vouches for itself, says of visitors what they cannot say of themselves, and
passes bytes on as they come. It has one request a connection."""

import asyncio
import json
import os
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

DOMAIN = os.environ["FUNNEL"]
PORT = 443
CERTIFICATE, KEY = "/tmp/c", "/tmp/k"
TOLD_BY_US = ("x-forwarded-", "tailscale-", "connection:")
PIECE = 65_536


def certify() -> ssl.SSLContext:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", f"/CN={DOMAIN}", "-addext", f"subjectAltName=DNS:{DOMAIN}")
    files = ("-keyout", KEY, "-out", CERTIFICATE)
    subprocess.run(["openssl", "req", "-x509", *curve, *names, *files], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def upstream() -> tuple[str, int]:
    """Where the serve file sends what comes through Funnel."""
    text = Path(os.environ["TS_SERVE_CONFIG"]).read_text(encoding="utf-8")
    serve = json.loads(text.replace("${TS_CERT_DOMAIN}", DOMAIN))
    name = f"{DOMAIN}:{PORT}"
    assert serve["TCP"] == {str(PORT): {"HTTPS": True}}
    assert serve["AllowFunnel"] == {name: True}
    url = urlsplit(serve["Web"][name]["Handlers"]["/"]["Proxy"])
    return str(url.hostname), url.port or 80


def rewritten(head: bytes, visitor: str) -> bytes:
    request, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    upgrades = any(line.lower().startswith("upgrade:") for line in lines)
    kept = [line for line in lines if not line.lower().startswith(TOLD_BY_US)]
    told = [
        f"Connection: {'Upgrade' if upgrades else 'close'}",
        f"X-Forwarded-For: {visitor}",
        f"X-Forwarded-Host: {DOMAIN}",
        "X-Forwarded-Proto: https",
        "Tailscale-Funnel-Request: ?1",
    ]
    return "\r\n".join([request, *kept, *told, "", ""]).encode("latin-1")


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE):
        target.write(piece)
        await target.drain()


async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    visitor = writer.get_extra_info("peername")[0]
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        from_gateway, to_gateway = await asyncio.open_connection(*upstream())
        to_gateway.write(rewritten(head, visitor))
        asking = asyncio.create_task(pass_on(reader, to_gateway))
        await pass_on(from_gateway, writer)
        asking.cancel()
        to_gateway.close()
    except (OSError, EOFError):
        pass  # one of the two is gone
    finally:
        writer.close()


async def say_healthy(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
    writer.close()


async def main() -> None:
    host, _, port = os.environ["TS_LOCAL_ADDR_PORT"].rpartition(":")
    funnel = await asyncio.start_server(visit, "", PORT, ssl=certify())
    health = await asyncio.start_server(say_healthy, host, int(port))
    async with funnel, health:
        await asyncio.gather(funnel.serve_forever(), health.serve_forever())


if __name__ == "__main__":
    asyncio.run(main())
