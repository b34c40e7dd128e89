"""Options that every command has."""

from argparse import SUPPRESS, ArgumentParser

from memory_bridge.arguments import given, timeout


def add_common(parser: ArgumentParser, *, namespace: bool = True) -> None:
    """Options that stand before or after the command; absent ones overwrite nothing."""
    common = parser.add_argument_group("common options")
    common.add_argument(
        "--url", type=given, default=SUPPRESS, help="the server, http(s)://HOST[:PORT][/mcp]"
    )
    common.add_argument("--token", default=SUPPRESS, help="bearer token of the server")
    common.add_argument("--token-file", default=SUPPRESS, metavar="FILE", help="file holding it")
    common.add_argument(
        "--db", type=given, default=SUPPRESS, metavar="FILE", help="a database file instead"
    )
    if namespace:
        common.add_argument("--namespace", default=SUPPRESS, metavar="NAME", help="which memory")
    common.add_argument("--client-id", default=SUPPRESS, metavar="NAME", help="who is asking")
    common.add_argument(
        "--timeout", type=timeout, default=SUPPRESS, metavar="S", help="seconds to wait (30)"
    )
    common.add_argument("--json", action="store_true", default=SUPPRESS, help="for programs")
    common.add_argument(
        "--debug", action="store_true", default=SUPPRESS, help="where an error came from, too"
    )
