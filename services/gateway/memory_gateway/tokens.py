"""Who a bearer token proves: the installation, or a client by what the store knows."""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Protocol

from memory_gateway.principals import INSTALLATION, Principal, principal_of_token
from memory_gateway.threads import DaemonThreads
from memory_store.contract import Busy, Store, Token, Unavailable

logger = logging.getLogger(__name__)

Clock = Callable[[], float]

REREAD_SECONDS = 1.0
REMEMBERED_SECONDS = 2.0
"""How long an answer of the store is good for. With it a token that was revoked ends well within
the 5 seconds that are promised."""
MOST_REMEMBERED = 10_000
LOOKUPS_AT_ONCE = 4
MOST_WAITING_STRANGERS = 64
LOOKUP_SECONDS = 5.0
CLIENT_TOKEN = re.compile(rb"mb_[A-Za-z0-9_-]{32,128}")
"""What the store makes looks so. Anything else is refused without asking it."""
FLOODED = "As many unknown tokens as the server looks up at once are being looked up."
LATE = "The store did not say in time whether the token is good."


@dataclass(frozen=True)
class Proof:
    """A bearer token as it is kept: its SHA-256 in hexadecimal, and whether a store may know it."""

    digest: str
    may_be_a_client: bool


def proof_of(token: bytes) -> Proof:
    return Proof(sha256(token).hexdigest(), CLIENT_TOKEN.fullmatch(token) is not None)


class Verifier(Protocol):
    async def verify(self, proof: Proof) -> Principal | None:
        """Returns who the token proves, None if it proves nobody (any more).

        Raises `StoreError` when that cannot be known now.
        """
        ...


class Tokens:
    """The tokens of the installation, which need no store, and those of its clients."""

    def __init__(self, installation: Verifier, clients: Verifier) -> None:
        self._installation = installation
        self._clients = clients

    async def verify(self, proof: Proof) -> Principal | None:
        return await self._installation.verify(proof) or await self._clients.verify(proof)


class InstallationTokens:
    """The tokens of the installation, which `read` returns as they are now: the present one, and
    while clients move to it the previous one. When they cannot be read those of before hold."""

    def __init__(self, read: Callable[[], Iterable[str]], clock: Clock = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._threads = DaemonThreads("installation tokens", 1)
        self._digests = _digests(read)
        self._next_reading = clock() + REREAD_SECONDS
        self._complaint = ""

    async def verify(self, proof: Proof) -> Principal | None:
        if self._clock() >= self._next_reading:
            self._next_reading = self._clock() + REREAD_SECONDS
            await self._read_again()
        matches = [hmac.compare_digest(proof.digest, digest) for digest in self._digests]
        return INSTALLATION if any(matches) else None

    async def _read_again(self) -> None:
        try:
            digests = await self._threads.run(partial(_digests, self._read))
        except ValueError as error:
            if self._complaint != str(error):
                logger.warning("the installation's tokens stay as they are: %s", error)
            self._complaint = str(error)
            return
        if digests != self._digests:
            logger.info("the installation's tokens have changed; there are %d now", len(digests))
        self._digests, self._complaint = digests, ""


def _digests(read: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    return tuple(proof_of(token.encode()).digest for token in read())


@dataclass(frozen=True)
class _Answer:
    principal: Principal | None
    until: float


class ClientTokens:
    """The tokens that the store knows, each asked for once in two seconds however often it comes.

    Tokens that were good before have threads of their own, so that a flood of guesses delays
    nobody else, and only so many guesses are looked up at once.
    """

    def __init__(self, store: Store, clock: Clock = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._acquaintances = DaemonThreads("tokens", LOOKUPS_AT_ONCE)
        self._strangers = DaemonThreads("unknown tokens", LOOKUPS_AT_ONCE)
        self._good: dict[str, _Answer] = {}  # beyond their time too: those are acquaintances
        self._bad: dict[str, _Answer] = {}
        self._lookups: dict[str, asyncio.Task[Principal | None]] = {}

    async def verify(self, proof: Proof) -> Principal | None:
        """Raises `StoreError`: `Unavailable` if the store says nothing, `Busy` in a flood."""
        if not proof.may_be_a_client:
            return None
        known = self._good.get(proof.digest) or self._bad.get(proof.digest)
        if known and self._clock() < known.until:
            return known.principal
        lookup = self._lookups.get(proof.digest) or self._begin(proof.digest)
        await asyncio.wait([lookup], timeout=LOOKUP_SECONDS)
        if not lookup.done():
            raise Unavailable(LATE)
        return lookup.result()

    def _begin(self, digest: str) -> asyncio.Task[Principal | None]:
        threads = self._acquaintances if digest in self._good else self._strangers
        if threads is self._strangers and threads.unfinished >= MOST_WAITING_STRANGERS:
            raise Busy(FLOODED)
        lookup = asyncio.create_task(self._look_up(digest, threads))
        self._lookups[digest] = lookup
        lookup.add_done_callback(partial(self._end, digest))
        return lookup

    async def _look_up(self, digest: str, threads: DaemonThreads) -> Principal | None:
        asked = self._clock()  # a token may be revoked while its answer is on the way
        token: Token | None = await threads.run(partial(self._store.token_verify, digest))
        principal = None if token is None else principal_of_token(token)
        self._remember(digest, _Answer(principal, asked + REMEMBERED_SECONDS))
        return principal

    def _remember(self, digest: str, answer: _Answer) -> None:
        self._good.pop(digest, None)
        self._bad.pop(digest, None)
        answers = self._bad if answer.principal is None else self._good
        answers[digest] = answer
        if len(answers) > MOST_REMEMBERED:
            del answers[next(iter(answers))]

    def _end(self, digest: str, lookup: asyncio.Task[Principal | None]) -> None:
        del self._lookups[digest]
        if not lookup.cancelled():
            lookup.exception()  # nobody may be waiting for it any more
