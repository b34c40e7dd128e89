"""The embedder of a process that has everything in it: a thread that drains when nudged."""

import logging
import threading

from memory_embedder.contract import Embedder, EmbedderUnavailable
from memory_embedder.drain import drain
from memory_store.contract import ModelIdentity, Store, StoreError, Unavailable

THREAD_NAME = "embedder"
LONGEST_PAUSE = 60.0
LONGEST_PAUSE_FOR_THE_STORE = 2.0  # contention passes soon

log = logging.getLogger(__name__)


class DrainThread:
    """Drains on a nudge and every `interval` seconds, since other processes write and die too.

    Nothing is loaded before there is work, unless `preload`. Nothing ends the thread but `stop`:
    after an error it pauses for `pause` seconds, doubled each time up to a minute, or up to 2 s
    when the store only asks to try again.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        owner: str,
        interval: float = 5.0,
        pause: float = 1.0,
        *,
        preload: bool = False,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._owner = owner
        self._interval = interval
        self._pause = pause
        self._preload = preload
        self._in_use: ModelIdentity | None = None
        self._last_failure = ""
        self._nudged = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Says that there may be work. Never blocks."""
        self._nudged.set()

    def stop(self, timeout: float = 5.0) -> bool:
        """Ends the thread after the text it is at; returns whether it ended within `timeout`."""
        self._stopped.set()
        self._nudged.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = self._pause
        while not self._stopped.is_set():
            self._nudged.clear()
            longest = self._round()
            if longest is None:
                pause = self._pause
                self._nudged.wait(self._interval)
            else:
                pause = min(longest, pause)
                # A nudge does not cut this short: under load it would undo the pause.
                self._stopped.wait(pause)
                pause *= 2

    def _round(self) -> float | None:
        """Returns None when all went well, else the longest pause that the failure is worth."""
        try:
            self._announce()
            self._load()
            drain(self._store, self._embedder, self._owner, self._stopped.is_set)
        except (EmbedderUnavailable, StoreError) as error:
            self._report(str(error))
            if isinstance(error, Unavailable):
                self._in_use = None  # what comes back may be another store
            passing = isinstance(error, StoreError) and error.retryable
            return LONGEST_PAUSE_FOR_THE_STORE if passing else LONGEST_PAUSE
        except Exception:
            log.exception("the embedder's thread failed and will try again")
            return LONGEST_PAUSE
        return None

    def _announce(self) -> None:
        identity = self._embedder.identity
        if identity != self._in_use:
            pending = self._store.model_use(identity)
            self._in_use = identity
            log.info("embedding with %s, %d facts pending", identity.id, pending)

    def _load(self) -> None:
        if self._preload:
            self._embedder.embed([""])
            self._preload = False

    def _report(self, failure: str) -> None:
        level = logging.DEBUG if failure == self._last_failure else logging.WARNING
        log.log(level, "%s", failure)
        self._last_failure = failure
