"""Runs a module where a public name leads to this machine, as a line in its hosts file would have
it: `resolving.py NAME MODULE …`."""

import runpy
import socket
import sys


def main(name, module, *words):
    look_up = socket.getaddrinfo

    def look_up_here(host, *rest, **named):
        return look_up("127.0.0.1" if host == name else host, *rest, **named)

    socket.getaddrinfo = look_up_here
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
