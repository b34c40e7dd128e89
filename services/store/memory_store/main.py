"""Serves the store that the settings name: `python -m memory_store.main`."""

import gc
import logging
import signal
import sys
from contextlib import closing, suppress
from types import FrameType

import uvicorn

from memory_store.base import CLOSING_SECONDS, StoreBase
from memory_store.contract import StoreError
from memory_store.opening import NotOurs, SchemaTooNew, open_store
from memory_store.server import build_app
from memory_store.settings import ServerSettings, SettingsError, StoreSettings, read
from memory_store.wire import SERVER_IDLE_SECONDS

DRAIN_SECONDS = 4
BAD_SETTING = 2


def main() -> None:
    """Ends with a sentence when it cannot start, and with status 1, or 2 for a bad setting."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        serving = read(ServerSettings)
        store = open_store(read(StoreSettings))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(BAD_SETTING)
    except (NotOurs, SchemaTooNew, StoreError) as error:
        sys.exit(str(error))
    # Once drained, uvicorn raises the signal that stopped it again: that must not skip the closing.
    signal.signal(signal.SIGTERM, _exit)
    with closing(store):
        config = uvicorn.Config(
            build_app(store, serving.secret.get_secret_value()),
            host=serving.host,
            port=serving.port,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=SERVER_IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        # What is there by now stays, and looking through it for garbage takes 40 ms each time.
        gc.freeze()
        with suppress(KeyboardInterrupt):
            _Server(config, store).run()


class _Server(uvicorn.Server):
    """Drains only what does something: whoever merely waits would hold it up to the end."""

    def __init__(self, config: uvicorn.Config, store: StoreBase) -> None:
        super().__init__(config)
        self._store = store

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._store.stop_waiting(CLOSING_SECONDS)
        super().handle_exit(sig, frame)


def _exit(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
