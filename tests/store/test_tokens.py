"""Per-client tokens: told once, recognised by their digest, ended by the clock or by hand."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from memory_store.clock import moment
from memory_store.contract import (
    Conflict,
    Invalid,
    NotFound,
    Token,
)
from store.holders import Hand
from store.office import Office, digest_of

DAY = 24 * 3600
TABLES = ("token", "token_secret", "event", "idempotency")


@pytest.fixture
def office(store):
    return Office(store)


def test_a_token_is_made_as_it_was_granted_and_its_secret_proves_it(office, clock):
    ends = moment(clock() + 1000 * DAY)
    made = office.create(
        "ci é🦉", ("write", "read"), namespaces=("home", "w%_'\""), expires_at=ends
    )

    assert made.token == Token(
        name="ci é🦉",
        scopes=("write", "read"),
        namespaces=("home", "w%_'\""),
        expires_at=ends,
        created_at=moment(clock()),
        created_by="operator",
    )
    assert office.shown(made.secret) == made.token
    assert office.store.token_list() == [made.token]


def test_a_token_may_be_for_all_namespaces_and_for_ever(office, clock):
    made = office.create(scopes=("admin",))
    clock.advance(100 * 365 * DAY)

    assert (made.token.namespaces, made.token.expires_at) == (None, None)
    assert office.shown(made.secret) == made.token


def test_no_two_secrets_are_alike_and_each_proves_its_own_token(office):
    made = [office.create(f"client {number}") for number in range(20)]

    assert len({it.secret for it in made}) == 20
    assert [office.shown(it.secret) for it in made] == [it.token for it in made]
    assert all(it.secret.startswith("mb_") and len(it.secret) > 40 for it in made)


@pytest.mark.parametrize("digest", ["0" * 64, "%", "' OR 1=1 --"])
def test_what_is_no_secret_proves_nothing(office, digest):
    made = office.create()

    assert office.store.token_verify(digest) is None
    assert office.store.token_verify(digest_of(made.secret).upper()) is None
    assert office.store.token_verify(made.secret) is None


@pytest.mark.parametrize("digest", ["", "a\0b", "\ud800", "0" * 129])
def test_what_cannot_be_a_digest_is_refused(office, digest):
    with pytest.raises(Invalid) as caught:
        office.store.token_verify(digest)
    assert caught.value.argument == "digest"


def everything_in(backing):
    with backing.engine.read() as session:
        return [row for table in TABLES for row in session.all(f"SELECT * FROM {table}")]


def test_of_a_secret_only_the_digest_is_kept(office, backing):
    secrets = [office.create().secret, office.rotate("ci", DAY).secret]
    office.revoke(office.create("gone").token.name)
    kept = repr(everything_in(backing))

    for secret in secrets:
        assert secret.removeprefix("mb_") not in kept
        assert digest_of(secret) in kept
        assert secret not in repr(office.store.token_list())
        assert digest_of(secret) not in repr(office.store.token_list())
        assert digest_of(secret) not in repr(office.store.event_list(None))


def test_the_database_file_holds_no_secret(opening, path):
    office = Office(opening())
    secrets = [office.create().secret, office.rotate("ci", DAY).secret]
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    office.store.close()
    closed = path.read_bytes()

    for secret in secrets:
        assert digest_of(secret).encode() in written
        assert digest_of(secret).encode() in closed
        for part in (secret, secret.removeprefix("mb_")[:20], secret[-20:]):
            assert part.encode() not in written
            assert part.encode() not in closed


def test_a_token_ends_at_its_time(office, clock):
    made = office.create(expires_at=moment(clock() + 10_000))
    clock.advance(9.999)
    assert office.shown(made.secret) == made.token
    clock.advance(0.001)
    assert office.shown(made.secret) is None
    assert office.listed().expires_at == moment(clock())


def test_tokens_are_listed_by_name_with_those_that_ended(office, clock):
    office.create("b")
    office.create("ä")
    office.create("B", expires_at=moment(clock() + 1000))
    office.create("a")
    office.revoke("a")
    clock.advance(5)

    assert [token.name for token in office.store.token_list()] == ["B", "a", "b", "ä"]
    assert [token.revoked_at is None for token in office.store.token_list()] == [
        *[True, False, True, True]
    ]


def test_a_name_is_never_used_again(office, clock):
    office.create("living")
    office.create("revoked")
    office.revoke("revoked")
    office.create("expired", expires_at=moment(clock() + 1000))
    clock.advance(60)
    before = office.store.event_list(None).events

    for name in ("living", "revoked", "expired"):
        with pytest.raises(Conflict, match=name) as caught:
            office.create(name)
        assert caught.value.argument == "name"
    assert office.store.event_list(None).events == before
    assert office.create("Living").token.name == "Living"


def test_of_many_that_want_a_name_one_gets_it(office):
    def create(_):
        try:
            return office.create().secret
        except Conflict:
            return None

    with ThreadPoolExecutor(8) as threads:
        (secret,) = filter(None, threads.map(create, range(16)))
    assert office.shown(secret) == office.listed()


def test_a_rotated_token_has_a_new_secret_and_is_otherwise_the_same(office, clock):
    made = office.create(scopes=("read", "write"), namespaces=("home",))
    clock.advance(60)
    rotated = office.rotate()

    assert rotated.token == made.token
    assert rotated.secret != made.secret
    assert office.shown(rotated.secret) == made.token


def test_without_an_overlap_the_old_secret_ends_at_once(office):
    made = office.create()
    office.rotate()

    assert office.shown(made.secret) is None


def test_a_clock_that_steps_back_brings_no_old_secret_back(office, clock):
    made = office.create()
    rotated = office.rotate()
    clock.advance(-3600)

    assert office.shown(made.secret) is None
    assert office.shown(rotated.secret) == made.token


def test_within_the_overlap_both_secrets_are_good(office, clock):
    made = office.create()
    rotated = office.rotate("ci", 60)
    clock.advance(59.999)
    assert office.shown(made.secret) == office.shown(rotated.secret) == made.token
    clock.advance(0.001)
    assert office.shown(made.secret) is None
    assert office.shown(rotated.secret) == made.token


def test_a_later_overlap_makes_no_older_secret_last_longer(office, clock):
    first = office.create()
    second = office.rotate("ci", 60)
    third = office.rotate("ci", 3600)
    clock.advance(60)

    assert office.shown(first.secret) is None
    assert office.shown(second.secret) == office.shown(third.secret) == first.token
    clock.advance(3600)
    assert [office.shown(it.secret) is None for it in (first, second, third)] == [True, True, False]


def test_a_shorter_overlap_ends_the_older_secrets_sooner(office, clock):
    first = office.create()
    second = office.rotate("ci", 3600)
    office.rotate("ci", 60)
    clock.advance(60)

    assert office.shown(first.secret) is None
    assert office.shown(second.secret) is None


def test_secrets_that_ended_are_not_kept_for_ever(office, clock, backing):
    office.create()
    for _ in range(5):
        office.rotate("ci", 60)
        clock.advance(60)
    office.rotate()

    with backing.engine.read() as session:
        assert len(session.all("SELECT * FROM token_secret")) == 1


@pytest.mark.parametrize("overlap", [-1, 30 * DAY + 1, float("nan"), float("inf")])
def test_an_overlap_beyond_its_limits_is_refused(office, overlap):
    made = office.create()
    with pytest.raises(Invalid) as caught:
        office.rotate("ci", overlap)
    assert caught.value.argument == "overlap_seconds"
    assert office.shown(made.secret) == made.token


def test_a_revoked_token_ends_at_once_with_all_its_secrets(office, clock):
    made = office.create()
    rotated = office.rotate("ci", DAY)
    other = office.create("other")
    revoked = office.revoke()

    assert office.shown(made.secret) is None
    assert office.shown(rotated.secret) is None
    assert office.shown(other.secret) == other.token
    assert revoked == office.listed()
    assert revoked == made.token.model_copy(update={"revoked_at": moment(clock())})


def test_a_token_that_another_store_revoked_ends_at_once(opened, reach):
    here, there = Office(reach(opened())), Office(opened())
    made = here.create()
    assert there.shown(made.secret) == made.token
    there.revoke()

    assert here.shown(made.secret) is None


def test_revoking_again_changes_nothing_and_leaves_no_event(office, clock):
    office.create()
    first = office.revoke()
    events = office.store.event_list(None).events
    clock.advance(60)

    assert office.revoke() == first
    assert office.store.event_list(None).events == events


def test_what_is_not_there_can_be_neither_rotated_nor_revoked(office):
    for act in (office.rotate, office.revoke):
        with pytest.raises(NotFound, match="nobody") as caught:
            act("nobody")
        assert caught.value.argument == "name"
    assert office.store.event_list(None).events == ()


def test_a_token_that_ended_gets_no_new_secret(office, clock):
    office.create("revoked")
    office.revoke("revoked")
    office.create("expired", expires_at=moment(clock() + 1000))
    clock.advance(1)

    for name in ("revoked", "expired"):
        with pytest.raises(NotFound, match=name):
            office.rotate(name)


def test_everything_done_to_tokens_is_in_the_trail_of_no_namespace(office, clock, alice):
    alice.set("k")
    office.create()
    office.rotate()
    office.revoke()
    events = office.store.event_list(None).events[:-1]

    assert [event.detail for event in events] == [
        {"action": action, "name": "ci"} for action in ("revoke", "rotate", "create")
    ]
    for event in events:
        assert (event.kind, event.namespace, event.key, event.version) == ("token", *[None] * 3)
        assert (event.value_before, event.value_after) == (None, None)
        assert event.at == moment(clock())
        assert (event.principal, event.source_client) == ("installation", "operator")
        assert (event.self_reported, event.claimed_client) == (False, "somebody else")
        assert event.request_id == "req-1"
    assert [event.kind for event in alice.events()] == ["set"]


SECOND = timedelta(seconds=1)
BAD_GRANTS = {
    "no scope": ("scopes", {"scopes": ()}),
    "no name": ("name", {"name": ""}),
    "a long name": ("name", {"name": "n" * 129}),
    "a name with NUL": ("name", {"name": "a\0"}),
    "a name that is no text": ("name", {"name": "\udfff"}),
    "no namespace": ("namespaces", {"namespaces": ()}),
    "too many namespaces": ("namespaces", {"namespaces": tuple(map(str, range(101)))}),
    "a bad namespace": ("namespaces", {"namespaces": ("home", "")}),
    "a long namespace": ("namespaces", {"namespaces": ("n" * 129,)}),
    "a namespace that is no text": ("namespaces", {"namespaces": ("\ud800",)}),
}


@pytest.mark.parametrize("case", BAD_GRANTS)
def test_a_grant_that_is_not_allowed_is_named_and_makes_nothing(office, case):
    argument, fields = BAD_GRANTS[case]
    with pytest.raises(Invalid) as caught:
        office.create(**fields)

    assert caught.value.argument == argument
    assert office.store.token_list() == []
    assert office.store.event_list(None).events == ()


@pytest.mark.parametrize("seconds", [-DAY, 0])
def test_a_token_does_not_begin_when_it_has_ended(office, clock, seconds):
    with pytest.raises(Invalid, match="past") as caught:
        office.create(expires_at=moment(clock()) + seconds * SECOND)
    assert caught.value.argument == "expires_at"
    assert office.store.token_list() == []


def test_a_grant_at_its_limits_is_allowed(office, clock):
    made = office.create(
        "n" * 128,
        ("read", "write", "admin"),
        namespaces=tuple(f"{number:0128}" for number in range(100)),
        expires_at=moment(clock() + 1),
    )
    assert office.shown(made.secret) == made.token


@pytest.mark.parametrize("act", ["rotate", "revoke"])
def test_a_name_that_cannot_be_is_refused(office, act):
    with pytest.raises(Invalid) as caught:
        getattr(office, act)("")
    assert caught.value.argument == "name"


def test_a_token_is_nothing_that_facts_or_counts_know_of(office, alice):
    office.create("k")
    alice.set("k")

    assert alice.keys() == ["k"]
    assert Hand(office.store, alice.caller, "token").keys() == []
    assert [it.name for it in office.store.namespace_list()] == ["default"]


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31m", "\u2028", "safe\u202eecin", "á\x05", "a\x7f", "\ufeffa"]
)
def test_a_name_that_could_garble_a_log_is_refused(office, name):
    with pytest.raises(Invalid, match="cannot be shown") as caught:
        office.create(name)
    assert caught.value.argument == "name"
