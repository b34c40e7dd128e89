"""Opaque cursors that are good only for the list they came from."""

import base64
import binascii
import hashlib
import json
from typing import TypeVar

from memory_store.contract import Invalid

Place = TypeVar("Place", int, str)


class Cursor:
    """Knows a list by its arguments; turns a place in it into text and back."""

    def __init__(self, *arguments: object) -> None:
        self._list = repr(arguments)

    def write(self, place: int | str) -> str:
        text = json.dumps([self._seal(place), place], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def read(self, cursor: str, kind: type[Place]) -> Place:
        """Raises `Invalid` for a text that is no cursor or is of another list."""
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            seal, place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise Invalid(
                "cursor is not one that this server gave; leave it out to start from the top",
                argument="cursor",
            ) from None
        if seal != self._seal(place) or not isinstance(place, kind):
            raise Invalid(
                "cursor belongs to a list with other arguments; repeat those of the first page",
                argument="cursor",
            )
        return place

    def _seal(self, place: object) -> str:
        """Against other lists and accidents; a cursor is no secret."""
        text = f"{self._list} {place!r}"
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
