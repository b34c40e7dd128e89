"""Clients of a store that write as fast as it lets them, until this process is ended."""

import sys
import threading
from contextlib import closing
from itertools import count

from store_process import PlainClient

CALLER = {"principal": "saturate", "source_client": "saturate"}


def write_on(url: str, number: int) -> None:
    with closing(PlainClient(url)) as client:
        for turn in count():
            write = {"key": f"{number}/{turn}", "value": f"What client {number} wrote, {turn}."}
            client.call("fact_set", caller=CALLER, write=write)
            if turn == 0:
                print("writing", flush=True)


if __name__ == "__main__":
    for client in range(int(sys.argv[2])):
        threading.Thread(target=write_on, args=(sys.argv[1], client)).start()
