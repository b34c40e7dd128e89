"""What holds for every test."""

import signal

import pytest

import docker_engine

NO_ENGINE = "no Docker engine answers"
LEFT_OUT = pytest.StashKey[int]()

# A run that a script started in the background ignores interrupts, and what it starts would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--rounds", type=int, default=6, help="how often the crash tests kill a store (6)"
    )
    parser.addoption(
        "--api-examples",
        type=int,
        default=5,
        help="how many requests to each operation schemathesis makes up (5)",
    )
    parser.addoption(
        "--restarts", type=int, default=4, help="how often a gateway is killed under stubs (4)"
    )
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=12,
        help="how long spoiled requests are sent to a gateway (12)",
    )
    parser.addoption(
        "--sessions", type=int, default=2_000, help="how many sessions are opened and left (2000)"
    )
    parser.addoption(
        "--redis-away-seconds",
        type=float,
        default=20,
        help="how long the stack of containers does without Redis (20)",
    )
    parser.addoption(
        "--containers", action="store_true", help="also run the tests that need a Docker engine"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", f"{docker_engine.MARK}: needs a Docker engine (--containers)"
    )
    if (
        config.getoption("--containers")
        and docker_engine.required()
        and not docker_engine.answers()
    ):
        pytest.exit(f"{docker_engine.REQUIRED}=1, and {NO_ENGINE}", returncode=1)


def pytest_collection_modifyitems(config, items):
    in_containers = [item for item in items if item.get_closest_marker(docker_engine.MARK)]
    if not config.getoption("--containers"):
        config.hook.pytest_deselected(items=in_containers)
        items[:] = [item for item in items if item not in set(in_containers)]
    elif in_containers and not docker_engine.answers():
        config.stash[LEFT_OUT] = len(in_containers)
        for item in in_containers:
            item.add_marker(pytest.mark.skip(reason=NO_ENGINE))


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(LEFT_OUT, 0):
        sentence = f"NOT TESTED: {NO_ENGINE}, so {count} tests of containers were skipped"
        terminalreporter.write_line(sentence, yellow=True, bold=True)
