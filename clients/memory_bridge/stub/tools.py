"""What the server's tools say of themselves, and what is added to a call because of it."""

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from memory_bridge.messages import Message, as_object

KEY = "idempotency_key"
_CLIENT = "client_id"


@dataclass(frozen=True)
class Traits:
    """`keyed` tools take an idempotency key; those of `keyed_lists` one in each of their items."""

    read_only: bool = False
    keyed: bool = False
    keyed_lists: tuple[str, ...] = ()
    takes_client: bool = False


class Toolbox:
    """The tools as the server last listed them."""

    def __init__(self) -> None:
        self._traits: dict[str, Traits] = {}

    @property
    def is_known(self) -> bool:
        return bool(self._traits)

    def of(self, tool: str) -> Traits | None:
        return self._traits.get(tool)

    def learn(self, result: Message) -> None:
        """Takes a page of the list."""
        for tool in _objects(result.get("tools")):
            name = tool.get("name")
            if isinstance(name, str):
                self._traits[name] = _traits(tool)

    def forget(self) -> None:
        self._traits = {}


class Signature:
    """Adds to a call what makes it safe to repeat, and who is calling if the stub was told."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id
        self._keys = (f"stub-{os.urandom(9).hex()}-{number}" for number in itertools.count(1))

    def sign(self, arguments: Message, traits: Traits) -> tuple[Message, bool]:
        """Returns the arguments, and whether every write among them has a key."""
        signed = dict(arguments)
        if traits.takes_client and self._client_id and signed.get(_CLIENT) is None:
            signed[_CLIENT] = self._client_id
        if traits.keyed:
            return self._with_key(signed), True
        for name in traits.keyed_lists:
            items = _items(signed.get(name))
            if items is None:
                return signed, False
            signed[name] = [self._with_key(item) for item in items]
        return signed, bool(traits.keyed_lists)

    def _with_key(self, write: Message) -> Message:
        return write if write.get(KEY) is not None else {**write, KEY: next(self._keys)}


def _traits(tool: Message) -> Traits:
    annotations = as_object(tool.get("annotations")) or {}
    properties = _properties(tool.get("inputSchema"))
    lists = (name for name, schema in properties.items() if KEY in _properties(_item_of(schema)))
    return Traits(
        read_only=annotations.get("readOnlyHint") is True,
        keyed=KEY in properties,
        keyed_lists=tuple(lists),
        takes_client=_CLIENT in properties,
    )


def _properties(schema: object) -> Mapping[str, Any]:
    return as_object((as_object(schema) or {}).get("properties")) or {}


def _item_of(schema: object) -> object:
    return (as_object(schema) or {}).get("items")


def _objects(value: object) -> Iterator[Message]:
    for item in cast("list[Any]", value) if isinstance(value, list) else []:
        if (found := as_object(item)) is not None:
            yield found


def _items(value: object) -> list[Message] | None:
    """Returns the items of a list of objects, also of one that came as its JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list):
        return None
    items = list(_objects(cast("list[Any]", value)))
    return items if len(items) == len(cast("list[Any]", value)) else None
