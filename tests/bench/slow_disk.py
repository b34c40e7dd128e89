"""The store on a disk that takes 2 ms for a flush, as ordinary ones of a cloud do.

Only for measuring: where a flush takes nothing, a client alone waits for the processor and not for
the disk, and has little to gain from others whose writes are flushed with its own.
"""

import sqlite3
import time
from functools import partial
from typing import Any

from memory_store import main

FLUSH_SECONDS = 0.002


class SlowFlush(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *parameters)
        if sql == "COMMIT":
            time.sleep(FLUSH_SECONDS)
        return cursor


if __name__ == "__main__":
    sqlite3.connect = partial(sqlite3.connect, factory=SlowFlush)
    main.main()
