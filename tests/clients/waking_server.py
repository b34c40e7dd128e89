"""A server that --wake starts: notes each start in a file, then answers on a port. A script."""

import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from clients.http_peer import Exchange, Peer

if __name__ == "__main__":
    port, starts = int(sys.argv[1]), Path(sys.argv[2])
    with starts.open("a") as file:
        file.write("started\n")

    class Handler(Exchange):
        peer = Peer()

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
