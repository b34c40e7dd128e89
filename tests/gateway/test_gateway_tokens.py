"""Who a token proves: what the store is asked, how often, and what is kept of a secret."""

import asyncio
import gc
import hmac
import logging
import threading
from datetime import UTC, datetime

import pytest

from fakes import FakeClock, FakeTokenStore
from memory_gateway import tokens
from memory_gateway.principals import INSTALLATION, principal_of_token
from memory_gateway.settings import GatewaySettings
from memory_gateway.tokens import ClientTokens, InstallationTokens, Proof, Tokens, proof_of
from memory_store.contract import Busy, Token, Unavailable
from store.office import Office, digest_of

SECONDS = 20
SECRET = "mb_" + "s" * 43
TOKEN = Token(
    name="ci", scopes=("read",), created_at=datetime(2026, 1, 31, tzinfo=UTC), created_by="tests"
)
PRINCIPAL = principal_of_token(TOKEN)
PROOF = proof_of(SECRET.encode())
OLD, NEW = "the-old-token-0123456789", "the-new-token-0123456789"

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def known():
    return FakeTokenStore({digest_of(SECRET): TOKEN})


def guess(number: int) -> Proof:
    return proof_of(f"mb_{number:043}".encode())


async def until(condition):
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  it comes true on another thread
            await asyncio.sleep(0.002)


async def test_a_secret_that_the_store_made_proves_its_token(store):
    made = Office(store).create("laptop", ("write",), namespaces=("home",))
    principal = await ClientTokens(store).verify(proof_of(made.secret.encode()))

    assert (principal.name, principal.client) == ("token:laptop", "laptop")
    assert (principal.scopes, principal.namespaces) == ({"read", "write"}, {"home"})


async def test_the_store_is_asked_once_in_two_seconds_however_often_a_token_comes(known, clock):
    verifier = ClientTokens(known, clock)
    for _ in range(50):
        assert await verifier.verify(PROOF) == PRINCIPAL
        assert await verifier.verify(guess(1)) is None
    assert len(known.asked) == 2
    clock.advance(2)
    known.known.clear()
    assert await verifier.verify(PROOF) is None
    assert len(known.asked) == 3


async def test_of_many_requests_at_once_one_asks_the_store(known):
    known.gate = threading.Event()
    verifier = ClientTokens(known)
    asking = [asyncio.create_task(verifier.verify(PROOF)) for _ in range(100)]
    await until(lambda: known.asked)
    known.gate.set()

    assert set(await asyncio.gather(*asking)) == {PRINCIPAL}
    assert known.asked == [PROOF.digest]


async def test_who_hangs_up_does_not_end_the_question_of_others(known):
    known.gate = threading.Event()
    verifier = ClientTokens(known)
    first, second = (asyncio.create_task(verifier.verify(PROOF)) for _ in range(2))
    await until(lambda: known.asked)
    first.cancel()
    known.gate.set()

    assert await second == PRINCIPAL
    assert len(known.asked) == 1


@pytest.mark.parametrize(
    "token",
    [
        b"mb_",
        b"mb_short",
        SECRET.encode() + b" ",
        SECRET.encode() + b"\n",
        SECRET.upper().encode(),
        SECRET.encode()[1:],
        b"Bearer " + SECRET.encode(),
        b"mb_" + b"\xc3\xbc" * 30,
        b"mb_" + b"s" * 5000,
        b"a-token-of-another-kind-0123456789",
    ],
)
async def test_what_no_store_has_made_is_refused_without_asking_it(known, token):
    assert await ClientTokens(known).verify(proof_of(token)) is None
    assert known.asked == []


async def test_a_flood_of_guesses_is_bounded_and_delays_nobody_who_was_known(known, clock):
    verifier = ClientTokens(known, clock)
    assert await verifier.verify(PROOF) == PRINCIPAL
    clock.advance(10)
    gate = known.gate = threading.Event()
    numbers = range(tokens.MOST_WAITING_STRANGERS)
    flood = [asyncio.create_task(verifier.verify(guess(number))) for number in numbers]
    await until(lambda: len(known.asked) == 1 + tokens.LOOKUPS_AT_ONCE)
    with pytest.raises(Busy):
        await verifier.verify(guess(10_000))
    known.gate = None

    assert await verifier.verify(PROOF) == PRINCIPAL
    assert not any(guess.done() for guess in flood)
    gate.set()
    assert set(await asyncio.gather(*flood)) == {None}


async def test_a_store_that_cannot_be_reached_says_nothing_about_a_token(known):
    known.trouble = Unavailable("it is away")
    verifier = ClientTokens(known)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await verifier.verify(PROOF)
    known.trouble = None

    assert await verifier.verify(PROOF) == PRINCIPAL


async def test_a_store_that_does_not_answer_is_not_waited_for(known, monkeypatch):
    monkeypatch.setattr(tokens, "LOOKUP_SECONDS", 0.05)
    known.gate = threading.Event()
    with pytest.raises(Unavailable, match="in time"):
        await ClientTokens(known).verify(PROOF)
    known.gate.set()


async def test_the_installation_is_known_while_the_store_is_away(known):
    known.trouble = Unavailable("it is away")
    both = Tokens(InstallationTokens(lambda: [NEW]), ClientTokens(known))

    assert await both.verify(proof_of(NEW.encode())) == INSTALLATION


async def test_what_is_remembered_is_bounded(known, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_REMEMBERED", 10)
    verifier = ClientTokens(known)
    for number in range(50):
        await verifier.verify(guess(number))
    assert await verifier.verify(PROOF) == PRINCIPAL

    assert (len(verifier._bad), len(verifier._good), verifier._lookups) == (10, 1, {})


async def test_no_secret_is_kept(known):
    secret = "mb_" + "kept" * 10
    verifier = Tokens(InstallationTokens(lambda: [NEW]), ClientTokens(known))
    await verifier.verify(proof_of(secret.encode()))
    reached, todo = set(), [verifier]
    while todo:
        it = todo.pop()
        if id(it) not in reached and not isinstance(it, type) and not callable(it):
            reached.add(id(it))
            assert it not in (secret, secret.encode(), NEW, NEW.encode())
            todo += gc.get_referents(it)
    assert len(reached) > 10


async def test_every_token_of_the_installation_is_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    verifier = InstallationTokens(lambda: [NEW, OLD])
    monkeypatch.setattr(tokens, "hmac", type("Spy", (), {"compare_digest": staticmethod(compare)}))
    for token in (NEW, OLD, "x"):
        await verifier.verify(proof_of(token.encode()))
    assert compared == [(64, 64)] * 6


@pytest.fixture
def files(tmp_path):
    (tmp_path / "token").write_text(OLD + "\n")
    return tmp_path


@pytest.fixture
def installation(files, clock):
    settings = GatewaySettings(
        auth_token_file=files / "token", auth_token_previous_file=files / "previous"
    )
    return InstallationTokens(settings.tokens, clock)


async def good(verifier, clock, *candidates):
    clock.advance(tokens.REREAD_SECONDS)
    proofs = [proof_of(token.encode()) for token in candidates]
    return [await verifier.verify(proof) == INSTALLATION for proof in proofs]


async def test_the_installations_token_is_rotated_without_a_restart(files, installation, clock):
    assert await good(installation, clock, OLD, NEW) == [True, False]
    (files / "previous").write_text(OLD)
    (files / "token").write_text(NEW)
    assert await good(installation, clock, OLD, NEW) == [True, True]
    (files / "previous").unlink()
    assert await good(installation, clock, OLD, NEW) == [False, True]


async def test_without_a_previous_one_the_old_token_ends_at_once(files, installation, clock):
    (files / "token").write_text(NEW)
    assert await good(installation, clock, OLD, NEW) == [False, True]


@pytest.mark.parametrize("name", ["token", "previous"])
async def test_tokens_that_cannot_be_read_change_nothing_and_are_told_once(
    files, installation, clock, caplog, name
):
    (files / name).write_text("short")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await good(installation, clock, OLD, "short", "") == [True, False, False]
    assert len(caplog.records) == 1
    assert "short" not in caplog.text
    assert OLD not in caplog.text
    (files / name).write_text(NEW)
    assert await good(installation, clock, NEW) == [True]
