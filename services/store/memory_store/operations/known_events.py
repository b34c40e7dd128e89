"""Which events a store has already, so that none is imported twice."""

import hashlib
from array import array

import numpy as np

from memory_store.engine import Session
from memory_store.operations.lines import EventLine
from memory_store.operations.reading import every_event


class KnownEvents:
    """Eight bytes for each event of the store, each of which is recognised once.

    Events have no name that two stores share, so they are told apart by all that they say. Of
    two that say the same, as two reads in one millisecond do, both are kept.
    """

    def __init__(self, session: Session) -> None:
        digests = array("q", map(_digest, every_event(session)))
        self._digests = np.sort(np.frombuffer(digests, dtype=np.int64))
        self._recognised = np.zeros(len(digests), dtype=np.bool_)

    def recognise(self, line: EventLine) -> bool:
        digest = _digest(line)
        place = int(np.searchsorted(self._digests, digest))
        while place < len(self._digests) and self._digests[place] == digest:
            if not self._recognised[place]:
                self._recognised[place] = True
                return True
            place += 1
        return False


def _digest(line: EventLine) -> int:
    text = line.model_dump_json().encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
