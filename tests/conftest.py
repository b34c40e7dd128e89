"""What holds for every test."""

import signal

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
