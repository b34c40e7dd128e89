"""What the server tells the person who started it."""

import os
import pty
import re
import socket
import subprocess
import time
from contextlib import suppress

import httpx2
import pytest

from gateway_serving import SECONDS, TOKEN, command, environment
from memory_gateway.greeting import how_to_connect


def test_a_server_on_a_terminal_says_that_it_waits_for_a_client_and_keeps_stdout_clean(tmp_path):
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        command(str(tmp_path / "memory.db")),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        os.close(terminal)
        hint = process.stderr.readline() + process.stderr.readline()
        os.close(controller)
        out, _ = process.communicate(timeout=SECONDS)
    assert b"speaks MCP on stdin and stdout" in hint
    assert b"serve --http" in hint
    assert out == b""


def test_a_server_on_a_pipe_says_nothing(tmp_path):
    done = subprocess.run(
        command(str(tmp_path / "memory.db")),
        input=b"",
        capture_output=True,
        env=environment(),
        timeout=SECONDS,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def answers(port):
    with suppress(httpx2.TransportError):
        return httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=SECONDS).is_success
    return False


def test_that_nobody_reads_what_it_says_is_no_reason_not_to_serve(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    unread, errors = os.pipe()
    os.close(unread)
    settings = environment(MCP_HTTP_PORT=str(port), MCP_AUTH_TOKEN=TOKEN)
    serving = command(str(tmp_path / "memory.db"), "--http")
    with subprocess.Popen(serving, stderr=errors, env=settings) as process:
        os.close(errors)
        deadline = time.monotonic() + SECONDS
        while not answers(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(SECONDS) == 0


def said_before_listening(database, **settings):
    """Returns what was said, the last line with the address included."""
    settings = {"MCP_HTTP_PORT": "0"} | settings
    said = []
    with subprocess.Popen(
        command(str(database), "--http"),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**settings),
    ) as process:
        for line in process.stderr:
            said.append(line)
            if line.startswith("listening on "):
                process.terminate()
                break
    return "".join(said)


def test_serving_over_http_says_where_everything_is(tmp_path):
    token = tmp_path / "a token"
    token.write_text(TOKEN)
    database = tmp_path / "memory.db"
    said = said_before_listening(database, MCP_AUTH_TOKEN_FILE=str(token))
    url = said.split()[-1]
    assert f"The memory is in        {database}\n" in said
    assert f"at         {url}\n" in said
    assert f"token is in         {token}\n" in said


@pytest.mark.parametrize("settings", [{"MCP_HTTP_PORT": "many"}, {"MCP_HTTP_HOST": "192.0.2.1"}])
def test_nothing_is_said_of_where_the_memory_is_when_it_is_not_served(tmp_path, settings):
    said = said_before_listening(tmp_path / "memory.db", MCP_AUTH_TOKEN=TOKEN, **settings)
    assert said.startswith("memory-bridge: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("in_a_file", [True, False])
def test_the_line_to_paste_carries_the_token_without_showing_it(tmp_path, in_a_file):
    file = tmp_path / "a 'token'"
    file.write_text(f"{TOKEN}\n")
    said = how_to_connect("http://x/mcp", tmp_path, file if in_a_file else None)
    header = re.search(r'claude mcp add .* --header (".+")$', said, re.MULTILINE)[1]
    assert TOKEN not in header
    shell = ["sh", "-c", f"printf %s {header}"]
    pasted = subprocess.check_output(shell, env=environment(MCP_AUTH_TOKEN=TOKEN), text=True)
    assert pasted == f"Authorization: Bearer {TOKEN}"
