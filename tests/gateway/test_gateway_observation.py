"""What can be seen of the server from outside, and what must not be seen."""

import json
import logging
import os
import re
import resource
import signal
import stat
import sys
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    TOKEN,
    http_server,
    modern,
    stdio_server,
)
from memory_gateway.observation.call import Call, request_id
from memory_gateway.observation.debug_log import CannotLog, DebugLog
from memory_gateway.observation.logs import MOST_WAITING, WaitingLines
from memory_gateway.observation.machine import machine_gauges

VALUE = "a-value-that-no-log-may-hold"
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def call(web, url, tool, **arguments):
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    body = modern("tools/call", name=tool, arguments=arguments)
    return web.post(url, json=body, headers=names)


def samples(web, url):
    text = web.get(url.replace("/mcp", "/metrics")).raise_for_status().text
    return {f"{name}{{{labels}}}": float(value) for name, labels, value in SAMPLE.findall(text)}


@pytest.fixture
def web():
    with httpx2.Client(headers=AUTHORIZED | ACCEPT, timeout=SECONDS) as web:
        yield web


def test_each_call_leaves_one_line_of_json_without_values_and_tokens(tmp_path, web):
    with http_server(tmp_path / "memory.db") as server:
        call(web, server.url, "memory_set", key="k", value=VALUE, client_id="tests")
        call(web, server.url, "memory_set", key="k", value="x", expected_value="other")
        web.post(server.url, json=INITIALIZE)
        httpx2.post(server.url, json=INITIALIZE, headers=ACCEPT)
        call(web, server.url, "no_such_tool")
        _, text = server.stop(signal.SIGTERM)
    told = [json.loads(line) for line in text.splitlines()]
    calls = [line for line in told if line["logger"] == "memory_gateway.calls"]
    assert [(line["call"], line["outcome"]) for line in calls] == [
        ("memory_set", "ok"),
        ("memory_set", "conflict"),
        ("initialize", "ok"),
        ("POST /mcp", "refused"),
        ("unknown", "-32602"),
    ]
    assert calls[0]["client"] == "tests"
    assert calls[0]["principal"] == "installation"
    assert calls[0]["ms"] > 0
    assert calls[3]["status"] == 401
    assert VALUE not in text
    assert TOKEN not in text


def test_one_id_goes_from_the_request_to_the_trail_the_log_and_the_response(tmp_path, web):
    with http_server(tmp_path / "memory.db") as server:
        web.headers["X-Request-Id"] = "trace-me-1"
        response = call(web, server.url, "memory_set", key="k", value="v")
        history = call(web, server.url, "memory_history", key="k").json()
        web.headers["X-Request-Id"] = "not a\tword"
        other = call(web, server.url, "memory_get", key="k")
        _, text = server.stop(signal.SIGTERM)
    [event] = history["result"]["structuredContent"]["events"]
    assert response.headers["x-request-id"] == event["request_id"] == "trace-me-1"
    assert '"request_id": "trace-me-1"' in text
    assert re.fullmatch(r"[0-9a-f]{12}", other.headers["x-request-id"])


@pytest.mark.parametrize("proposed", [None, "", "a b", "x" * 65, "é", 'a"b', "a\n"])
def test_an_id_that_could_garble_a_log_is_replaced(proposed):
    assert re.fullmatch(r"[0-9a-f]{12}", request_id(proposed))


def test_metrics_count_calls_by_tool_and_outcome(tmp_path, web):
    with http_server(tmp_path / "memory.db") as server:
        call(web, server.url, "memory_set", key="k", value=VALUE)
        call(web, server.url, "memory_set", key="k", value="x", require_absent=True)
        call(web, server.url, "made-up-name")
        httpx2.post(server.url, json=INITIALIZE, headers=ACCEPT)
        session = web.post(server.url, json=INITIALIZE).headers["mcp-session-id"]
        seen = samples(web, server.url)
    assert session
    assert seen['memory_bridge_calls_total{call="memory_set",outcome="ok"}'] == 1
    assert seen['memory_bridge_calls_total{call="memory_set",outcome="conflict"}'] == 1
    assert seen['memory_bridge_calls_total{call="unknown",outcome="-32602"}'] == 1
    assert seen['memory_bridge_call_seconds_count{call="memory_set"}'] == 2
    assert seen['memory_bridge_refusals_total{status="401"}'] == 1
    gauges = {"sessions": 1, "facts": 1, "events": 2, "embedding_pending": 1, "store_up": 1}
    assert {name: seen[f"memory_bridge_{name}{{}}"] for name in gauges} == gauges


def test_metrics_tell_the_memory_of_the_machine(tmp_path):
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  2048 kB\nMemFree:  1 kB\nMemAvailable:   512 kB\n")
    told = {name: value for name, _, value in machine_gauges(file)()}
    assert told == {
        "machine_memory_bytes": 2048 * 1024,
        "machine_memory_available_bytes": 512 * 1024,
    }
    assert list(machine_gauges(tmp_path / "absent")()) == []


def test_metrics_are_told_only_to_who_may_read(tmp_path):
    with http_server(tmp_path / "memory.db") as server:
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/metrics", timeout=SECONDS)
    assert answer.status_code == 401


def test_the_debug_log_has_every_tool_call_whole_and_is_its_owners_alone(tmp_path, web):
    log = tmp_path / "debug.log"
    with http_server(tmp_path / "memory.db", MCP_DEBUG_LOG=str(log)) as server:
        call(web, server.url, "memory_set", key="k", value=VALUE)
        call(web, server.url, "memory_get", key="😀 none")
        call(web, server.url, "memory_get", wrong=1)
        written, read, refused = map(json.loads, log.read_text("utf-8").splitlines())
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert written["arguments"] == {"key": "k", "value": VALUE}
    assert written["answer"]["fact"]["version"] == 1
    assert (written["tool"], written["outcome"]) == ("memory_set", "ok")
    assert read["answer"]["found"] is False
    assert refused["outcome"] == "invalid_argument"
    assert TOKEN not in log.read_text("utf-8")


def test_a_debug_log_that_cannot_be_written_stops_no_call_and_tells_no_value(tmp_path, web):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    with http_server(tmp_path / "memory.db", MCP_DEBUG_LOG=str(full)) as server:
        for number in range(3):
            stored = call(web, server.url, "memory_set", key=f"k{number}", value=VALUE)
            assert stored.json()["result"]["isError"] is False
        code, said = server.stop(signal.SIGTERM)
    assert code == 0
    assert said.count("MCP_DEBUG_LOG cannot be written") == 1
    assert VALUE not in said
    assert "Traceback" not in said


def test_a_debug_log_that_is_a_pipe_which_nobody_reads_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CannotLog, match="MCP_DEBUG_LOG"):
        DebugLog(tmp_path / "pipe")


@contextmanager
def no_file_may_grow():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_debug_log_says_once_that_it_fails_and_goes_on_when_it_can(tmp_path, caplog):
    path = tmp_path / "debug.log"
    with closing(DebugLog(path)) as log, caplog.at_level(logging.INFO):
        with no_file_may_grow():
            for _ in range(3):
                log.keep(Call("1", "memory_get", "mcp"), {"key": VALUE}, None)
        log.keep(Call("2", "memory_get", "mcp"), {"key": "kept"}, None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert VALUE not in caplog.text
    assert json.loads(path.read_text("utf-8").splitlines()[-1])["arguments"] == {"key": "kept"}


def test_what_clients_say_cannot_pass_for_another_line_of_the_log():
    forged = "x\n{FORGED}\r{FORGED}\x1b[2J\u2028{FORGED}\x85"
    written = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(logging.Formatter("%(message)s").format(record))
    waiting = WaitingLines(handler)
    try:
        int("x")
    except ValueError:
        record = logging.makeLogRecord({"msg": "%s failed", "args": (forged,)})
        record.exc_info = sys.exc_info()
        waiting.handle(record)
    waiting.finish()
    first, second, *_ = written[0].splitlines()
    assert first.count("FORGED") == 3
    assert first.isprintable()
    assert second.startswith("Traceback")


def test_on_stdio_the_debug_log_is_kept_too_and_standard_error_stays_quiet(tmp_path):
    log = tmp_path / "debug.log"
    with stdio_server(tmp_path / "memory.db", MCP_DEBUG_LOG=str(log)) as server:
        server.initialize()
        server.call(1, "memory_set", key="k", value=VALUE)
        assert server.answer()["id"] == 1
        server.close()
    assert json.loads(log.read_text("utf-8"))["via"] == "stdio"
    assert VALUE.encode() not in b"".join(server.errors)
    assert b"memory_set" not in b"".join(server.errors)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"MCP_DEBUG_LOG": "/no/such/folder/x.log"}, "MCP_DEBUG_LOG must name a file"),
        ({"MCP_LOG_FORMAT": "xml"}, "MCP_LOG_FORMAT must be json or text"),
        ({"MCP_RATE_PER_SECOND": "0"}, "MCP_RATE_PER_SECOND must be a number from 0.001"),
        ({"MCP_RATE_PER_SECOND": "1e-300"}, "MCP_RATE_PER_SECOND must be a number from 0.001"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be the"),
        ({"MCP_ALLOWED_HOSTS": "a:99999"}, "MCP_ALLOWED_HOSTS must be host names"),
        ({"MCP_REDIS_URL": "http://x"}, "MCP_REDIS_URL must be redis://"),
        ({"MCP_REDIS_URL": "redis://host:port"}, "MCP_REDIS_URL must be redis://"),
        ({"MCP_REDIS_URL": "redis://host:99999"}, "MCP_REDIS_URL must be redis://"),
        ({"MCP_REDIS_URL": "redis://[::1"}, "MCP_REDIS_URL must be redis://"),
    ],
)
def test_a_bad_setting_is_named_at_the_start(tmp_path, setting, said):
    with stdio_server(tmp_path / "memory.db", **setting) as server:
        assert server.process.wait(SECONDS) in (1, 2)
        server.close()
    assert said.encode() in b"".join(server.errors)


class Collector(HTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Received)
        self.bodies = []
        self.arrived = threading.Event()


class Received(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(body)
        self.send_response(200)
        self.end_headers()
        self.server.arrived.set()

    def log_message(self, *_): ...


def test_traces_reach_a_collector_and_carry_the_trace_of_the_client(tmp_path, web):
    trace = "0af7651916cd43dd8448eb211c80319c"
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": "my-memory"}
        with http_server(tmp_path / "memory.db", **settings) as server:
            web.headers["traceparent"] = f"00-{trace}-b7ad6b7169203331-01"
            call(web, server.url, "memory_set", key="k", value=VALUE)
            server.stop(signal.SIGTERM)
        assert collector.arrived.wait(SECONDS)
        collector.shutdown()
    sent = b"".join(collector.bodies)
    assert bytes.fromhex(trace) in sent
    assert b"my-memory" in sent
    assert b"memory_set" in sent
    assert VALUE.encode() not in sent


def test_a_collector_that_is_not_there_holds_up_neither_calls_nor_the_end(tmp_path, web):
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with http_server(tmp_path / "memory.db", **settings) as server:
        assert call(web, server.url, "memory_set", key="k", value=VALUE).status_code == 200
        code, _ = server.stop(signal.SIGTERM)
    assert code == 0


def test_lines_that_nobody_reads_hold_up_nobody_and_their_number_is_told():
    let_go, written = threading.Event(), []

    class Stuck(logging.Handler):
        def emit(self, record):
            assert let_go.wait(SECONDS)
            written.append(record.getMessage())

    waiting = WaitingLines(Stuck())
    for number in range(MOST_WAITING + 50):
        waiting.handle(logging.makeLogRecord({"msg": f"line {number}"}))
    let_go.set()
    waiting.finish()
    assert written[0] == "line 0"
    assert re.match(r"(49|50) log lines were dropped", written[-1])
