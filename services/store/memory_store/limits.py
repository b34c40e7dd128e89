"""What an argument may be. A refusal names the argument, what was wrong and what is allowed."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from memory_store.clock import milliseconds
from memory_store.contract import (
    UNSEEN,
    EventFilter,
    FactWrite,
    Invalid,
    SearchQuery,
    TokenGrant,
)

MAX_MANY = 100
MAX_PAGE = 1000
MAX_HITS = 100
MAX_NAME_LENGTH = 128
MAX_QUERY_LENGTH = 16_384
MAX_TTL_SECONDS = 10 * 365 * 24 * 3600
MAX_HOLD_SECONDS = 60
MAX_WAIT_SECONDS = 30
MAX_OVERLAP_SECONDS = 30 * 24 * 3600
MAX_LEASE_SECONDS = 24 * 3600
MAX_DEPTH = 32
"""Levels of lists and objects in metadata; readers of JSON give up at a few hundred."""
_UNSEEN = re.compile(f"[{UNSEEN}]")


@dataclass(frozen=True)
class Limits:
    """Lengths are in characters."""

    key: int = 256
    value: int = 16_384
    tags: int = 64
    metadata: int = 16_384


def check_text(argument: str, text: str, most: int, least: int = 0) -> None:
    if len(text) < least:
        raise Invalid(f"{argument} must not be empty", argument=argument)
    if len(text) > most:
        raise Invalid(
            f"{argument} has {len(text):,} characters; at most {most:,} are allowed",
            argument=argument,
        )
    if "\0" in text:
        raise Invalid(f"{argument} must not contain a NUL character", argument=argument)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{argument} has a lone surrogate at character {error.start + 1}; "
            "any Unicode text without one is allowed",
            argument=argument,
        ) from None


def check_name(argument: str, name: str) -> None:
    check_text(argument, name, MAX_NAME_LENGTH, least=1)


def check_retry_key(key: str | None) -> None:
    if key is not None:
        check_name("idempotency_key", key)


def check_range(argument: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:
        raise Invalid(
            f"{argument} is {number:,}; allowed is {least:,} to {most:,}", argument=argument
        )


def check_count(argument: str, many: Sequence[object]) -> None:
    if not 1 <= len(many) <= MAX_MANY:
        raise Invalid(
            f"{argument} has {len(many):,} entries; allowed is 1 to {MAX_MANY}", argument=argument
        )


def check_tags(tags: Sequence[str], limits: Limits) -> None:
    if len(tags) > limits.tags:
        raise Invalid(
            f"tags has {len(tags)} entries; at most {limits.tags} are allowed", argument="tags"
        )
    for tag in tags:
        check_name("tags", tag)


def check_address(namespace: str, key: str, limits: Limits) -> None:
    check_name("namespace", namespace)
    check_text("key", key, limits.key, least=1)


def check_write(write: FactWrite, limits: Limits) -> None:
    check_address(write.namespace, write.key, limits)
    check_text("value", write.value, limits.value)
    check_conditions(write, limits)
    check_tags(write.tags or (), limits)
    if write.metadata is not None:
        check_metadata(write.metadata, limits)
    if write.ttl_seconds is not None:
        check_range("ttl_seconds", write.ttl_seconds, 0.001, MAX_TTL_SECONDS)
    check_retry_key(write.idempotency_key)


def check_conditions(write: FactWrite, limits: Limits) -> None:
    given = [
        name
        for name, is_given in (
            ("expected_value", write.expected_value is not None),
            ("expected_version", write.expected_version is not None),
            ("require_absent", write.require_absent),
        )
        if is_given
    ]
    if len(given) > 1:
        raise Invalid(
            f"{' and '.join(given)} exclude each other; give at most one of them",
            argument=given[0],
        )
    if write.expected_version is not None and write.expected_version < 0:
        raise Invalid(
            f"expected_version is {write.expected_version}; allowed is 1, 2, 3 … "
            "or 0 for a key that must be absent",
            argument="expected_version",
        )
    if write.expected_value is not None:
        # No longer value can be there; and a refused attempt stays in the trail as it was made.
        check_text("expected_value", write.expected_value, limits.value)


def check_metadata(metadata: dict[str, object], limits: Limits) -> None:
    if _is_deeper(metadata, MAX_DEPTH):
        raise Invalid(
            f"metadata is nested too deeply; at most {MAX_DEPTH} levels are allowed",
            argument="metadata",
        )
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise Invalid(
            "metadata must be a JSON object without NaN and infinity", argument="metadata"
        ) from None
    check_text("metadata", text, limits.metadata)


def _is_deeper(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(value, dict | list | tuple) for value in level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list | tuple) else ()


def check_query(query: SearchQuery, limits: Limits) -> None:
    check_name("namespace", query.namespace)
    check_text("query", query.text, MAX_QUERY_LENGTH, least=1)
    check_range("top_k", query.limit, 1, MAX_HITS)
    check_text("prefix", query.prefix, limits.key)
    check_tags(query.tags, limits)
    if query.min_score is not None:
        check_range("min_score", query.min_score, 0, 1)


def check_filter(only: EventFilter) -> None:
    if only.source_client is not None:
        check_text("source_client", only.source_client, MAX_NAME_LENGTH)


def check_grant(grant: TokenGrant, now: int) -> None:
    check_name("name", grant.name)
    if _UNSEEN.search(grant.name):
        raise Invalid(
            "name holds a character that cannot be shown in a log; leave it out", argument="name"
        )
    if not grant.scopes:
        raise Invalid("scopes is empty; give read, write or admin", argument="scopes")
    if grant.namespaces is not None:
        check_count("namespaces", grant.namespaces)
        for namespace in grant.namespaces:
            check_name("namespaces", namespace)
    if grant.expires_at is not None and milliseconds(grant.expires_at) <= now:
        raise Invalid("expires_at is in the past; give a time to come", argument="expires_at")
