"""One fact over plain HTTP: its address, its version as an entity tag, conditions on it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway_serving import http_server
from http_interface import client, interface, problem, set_fact
from store.strategies import text

NASTY = [
    *["..", ".", "a/../b", "//", "/", "a//b", "%2F", "%", "%zz", "+", " ", "&=", "?#", ";", "\\"],
    *[
        "\n",
        "\r\n",
        "\t",
        "\x7f",
        "🦉",
        "👩‍👩‍👧",
        "é",
        "e\u0301",
        "\u202eabc\u202c",
        "\ufeff",
        "\U0010ffff",
    ],
    *["NULL", "' OR 1=1 --", "a" * 256, "🦉" * 256, "../../etc/passwd", "key=1&key=2"],
]
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("api") / "memory.db") as server:
        yield server


@pytest.fixture(scope="module")
def web(served):
    with client(served.url) as web:
        yield web


def read(web, key, **more):
    return web.get("/fact", params={"key": key, **more})


def test_a_fact_is_created_replaced_read_and_removed(web):
    created = set_fact(web, "life", "one")
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    replaced = set_fact(web, "life", "two")
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    found = read(web, "life")
    assert found.json() == replaced.json()
    assert (found.headers["etag"], found.json()["value"]) == ('"2"', "two")
    removed = web.delete("/fact", params={"key": "life"})
    assert (removed.status_code, removed.json()["version"]) == (200, 2)
    assert problem(read(web, "life"), 404, "not_found")["argument"] == "key"
    assert set_fact(web, "life", "three").status_code == 201


def test_all_that_a_fact_can_have_goes_in_and_comes_back(web):
    body = {"value": "v", "tags": ["a", "b"], "metadata": {"n": [1, None, {"x": 1.5}]}}
    written = web.put("/fact", params={"key": "whole"}, json=body | {"ttl_seconds": 60})
    found = read(web, "whole").json()
    assert found == written.json()
    assert {name: found[name] for name in body} == body
    assert found["expires_at"] > found["updated_at"]
    kept = set_fact(web, "whole", "w").json()
    assert (kept["tags"], kept["metadata"], kept["expires_at"]) == (
        body["tags"],
        body["metadata"],
        None,
    )


def test_a_version_that_the_client_has_is_not_sent_again(web):
    tag = set_fact(web, "known", "v").headers["etag"]
    for known in (tag, f'W/{tag}, "99"', "*", f'"7", {tag}'):
        unchanged = web.get("/fact", params={"key": "known"}, headers={"If-None-Match": known})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["etag"] == tag
        assert unchanged.headers["cache-control"] == "private, no-cache"
    newer = set_fact(web, "known", "w").headers["etag"]
    changed = web.get("/fact", params={"key": "known"}, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.headers["etag"]) == (200, newer)
    assert web.head("/fact", params={"key": "known"}).headers["etag"] == newer


def test_only_the_version_that_was_read_is_replaced(web):
    tag = set_fact(web, "cas", "one").headers["etag"]
    assert set_fact(web, "cas", "two", If_Match=tag).status_code == 200
    refused = set_fact(web, "cas", "three", If_Match=tag)
    told = problem(refused, 412, "conflict")
    assert (told["current"]["value"], told["argument"]) == ("two", "If-Match")
    assert refused.headers["etag"] == '"2"'
    assert set_fact(web, "cas", "three", If_Match=refused.headers["etag"]).status_code == 200
    gone = web.delete("/fact", params={"key": "cas"}, headers={"If-Match": '"2"'})
    assert problem(gone, 412, "conflict")["current"] == read(web, "cas").json()
    last = web.delete("/fact", params={"key": "cas"}, headers={"If-Match": '"3"'})
    assert last.json()["value"] == "three"


def test_a_key_that_must_be_absent_is_written_once(web):
    assert set_fact(web, "once", "mine", If_None_Match="*").status_code == 201
    told = problem(set_fact(web, "once", "yours", If_None_Match="*"), 412, "conflict")
    assert (told["current"]["value"], told["argument"]) == ("mine", "If-None-Match")


def test_a_condition_in_the_body_is_a_conflict_and_no_precondition(web):
    set_fact(web, "expected", "one")
    body = {"value": "two", "expected_value": "other"}
    told = problem(web.put("/fact", params={"key": "expected"}, json=body), 409, "conflict")
    assert told["current"]["value"] == "one"


@pytest.fixture(params=["one server", "two servers"])
def rivals(request, tmp_path):
    """Two clients of one memory, by their names."""
    with ExitStack() as opened:
        first = opened.enter_context(http_server(tmp_path / "memory.db"))
        second = first
        if request.param == "two servers":
            second = opened.enter_context(http_server(tmp_path / "memory.db"))
        named = {"one": first, "two": second}
        yield {
            name: opened.enter_context(client(server.url, **{"Memory-Client-Id": name}))
            for name, server in named.items()
        }


def test_of_two_clients_with_one_tag_exactly_one_wins_every_time(rivals):
    rounds = 15
    tag = set_fact(rivals["one"], "race", "start").headers["etag"]
    with ThreadPoolExecutor(2) as threads:
        for number in range(rounds):
            answers = {
                name: threads.submit(set_fact, web, "race", f"{name} {number}", If_Match=tag)
                for name, web in rivals.items()
            }
            statuses = {name: answer.result().status_code for name, answer in answers.items()}
            assert sorted(statuses.values()) == [200, 412]
            (winner,) = [name for name, status in statuses.items() if status == 200]
            fact = rivals["one"].get("/fact", params={"key": "race"})
            assert fact.json()["value"] == f"{winner} {number}"
            assert fact.json()["source_client"] == winner
            tag = fact.headers["etag"]
    assert tag == f'"{rounds + 1}"'


def test_of_two_clients_that_create_exactly_one_does(rivals):
    with ThreadPoolExecutor(2) as threads:
        for number in range(10):
            answers = [
                threads.submit(set_fact, web, f"new/{number}", name, If_None_Match="*")
                for name, web in rivals.items()
            ]
            assert sorted(answer.result().status_code for answer in answers) == [201, 412]


def test_a_version_of_what_is_absent_does_not_hold(web):
    told = problem(set_fact(web, "never", "v", If_Match='"1"'), 412, "conflict")
    assert "current" not in told
    gone = web.delete("/fact", params={"key": "never"}, headers={"If-Match": '"1"'})
    problem(gone, 404, "not_found")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("If-Match", "3"),
        ("If-Match", '"x"'),
        ("If-Match", "*"),
        ("If-Match", '"0"'),
        ("If-Match", 'W/"3"'),
        ("If-None-Match", '"3"'),
        ("Idempotency-Key", "with a blank"),
        ("Idempotency-Key", "x" * 129),
    ],
)
def test_a_header_that_cannot_be_meant_is_named(web, header, value):
    told = problem(set_fact(web, "k", "v", **{header: value}), 422, "invalid_argument")
    assert told["argument"].lower() == header.lower()


def test_conditions_exclude_each_other(web):
    both = set_fact(web, "k", "v", If_Match='"1"', If_None_Match="*")
    assert problem(both, 422, "invalid_argument")["argument"] == "If-Match"


@pytest.mark.parametrize("header", ["Idempotency-Key", "Memory-Client-Id", "If-Match"])
def test_a_header_that_is_there_twice_is_named(web, header):
    twice = [(header, '"1"'), (header, '"2"')]
    response = web.put("/fact", params={"key": "k"}, json={"value": "v"}, headers=twice)
    assert problem(response, 422, "invalid_argument")["argument"] == header


def test_a_retry_writes_once_and_hears_the_same(web):
    first = set_fact(web, "retried", "v", Idempotency_Key="a-1")
    again = set_fact(web, "retried", "v", Idempotency_Key="a-1")
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.json()["version"] == 1
    other = set_fact(web, "retried", "w", Idempotency_Key="a-1")
    problem(other, 409, "idempotency_mismatch")
    gone = [
        web.delete("/fact", params={"key": "retried"}, headers={"Idempotency-Key": "a-2"})
        for _ in range(2)
    ]
    assert [response.status_code for response in gone] == [200, 200]


def test_a_key_for_retries_is_refused_where_it_would_not_be_kept(web):
    for path in ("/facts/set", "/tokens", "/tokens/x/rotate"):
        response = web.post(path, json={}, headers={"Idempotency-Key": "a-3"})
        assert problem(response, 422, "invalid_argument")["argument"] == "Idempotency-Key"


def test_what_was_there_is_read_by_version_and_by_time(web):
    first = set_fact(web, "past", "one").json()
    set_fact(web, "past", "two")
    assert read(web, "past", at=1).json()["value"] == "one"
    assert read(web, "past", at=first["updated_at"]).json()["value"] == "one"
    assert read(web, "past", at="2999-01-01T00:00:00+02:00").json()["value"] == "two"
    problem(read(web, "past", at=3), 404, "not_found")
    problem(read(web, "past", at="2001-01-01T00:00:00Z"), 404, "not_found")


@pytest.mark.parametrize(
    "at",
    [
        *["0", "-1", "1.0", " 1", "1_0", "", "now", "2026-01-31", "2026-01-31T12:00:00", "2" * 30],
        *["2026-02-30T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"],
    ],
)
def test_a_time_that_is_none_is_named(web, at):
    assert problem(read(web, "k", at=at), 422, "invalid_argument")["argument"] == "at"


def test_an_older_version_comes_back_as_the_next_one(web):
    set_fact(web, "undo", "one")
    set_fact(web, "undo", "two")
    restored = web.post("/fact/restore", params={"key": "undo", "version": 1})
    assert (restored.json()["value"], restored.headers["etag"]) == ("one", '"3"')
    retry = {"Idempotency-Key": "undo-1"}
    undone = [
        web.post("/fact/restore", params={"key": "undo", "version": 2}, headers=retry)
        for _ in range(2)
    ]
    assert [response.headers["etag"] for response in undone] == ['"4"', '"4"']
    missing = web.post("/fact/restore", params={"key": "undo", "version": 9})
    assert problem(missing, 404, "not_found")["argument"] == "version"


@given(key=keys.filter(lambda key: len(key) <= 256), value=text)
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(key="..", value="")
def test_any_text_is_a_key_and_arrives_as_it_is(web, key, value):
    value = value.replace("\0", "")
    arrives(web, key, value)


@pytest.mark.parametrize("key", NASTY)
def test_nasty_keys_arrive_as_they_are(web, key):
    arrives(web, key, key)


def arrives(web, key, value):
    namespace = {"namespace": f"of {key}"[:128]}
    written = web.put("/fact", params={"key": key} | namespace, json={"value": value})
    assert written.json()["key"] == key
    found = read(web, key, **namespace).json()
    assert (found["key"], found["value"]) == (key, value)
    listed = web.get("/facts", params={"prefix": key} | namespace).json()["facts"]
    assert key in [fact["key"] for fact in listed]
    assert web.delete("/fact", params={"key": key} | namespace).json()["key"] == key


def test_a_query_that_is_not_percent_encoded_utf_8_is_refused(web):
    for query in ("key=%", "key=%zz", "key=%ff", "key=%ed%a0%80", "key=a&%c3=b"):
        problem(web.get(f"/fact?{query}"), 422, "invalid_argument")


def test_many_writes_have_one_outcome_each(web):
    set_fact(web, "many/1", "there")
    writes = [
        {"key": "many/1", "value": "x", "require_absent": True},
        {"key": "many/2", "value": "x", "tags": ["t"], "metadata": {"a": 1}},
        {"key": "k" * 257, "value": "x"},
        {"key": "many/1", "value": "y", "expected_version": 1.0},
    ]
    outcomes = web.post("/facts/set", json={"writes": writes}).json()["outcomes"]
    assert outcomes[0]["problem"]["code"] == "conflict"
    assert outcomes[0]["problem"]["current"]["value"] == "there"
    assert outcomes[1]["fact"]["tags"] == ["t"]
    assert outcomes[2]["problem"]["argument"] == "key"
    assert outcomes[3]["fact"]["version"] == 2
    found = web.post("/facts/get", json={"keys": ["many/2", "absent", "many/1"]}).json()["facts"]
    assert [fact and fact["value"] for fact in found] == ["x", None, "y"]


def test_a_value_is_whole_however_long(web):
    value = "\x01🦉" * 8_000
    set_fact(web, "long/1", value)
    set_fact(web, "long/2", value)
    assert read(web, "long/1").json()["value"] == value
    listed = web.get("/facts", params={"prefix": "long/"}).json()["facts"]
    assert [fact["value"] for fact in listed] == [value, value]


def test_who_asks_stands_in_the_trail(web):
    ours = "Büro 🦉"
    named = set_fact(web, "who", "v", Memory_Client_Id=ours.encode()).json()
    assert (named["source_client"], named["self_reported"]) == (ours, True)
    introduced = set_fact(web, "who", "v", User_Agent="deploy-script/2.1 (linux)").json()
    assert introduced["source_client"] == "deploy-script"
    assert introduced["principal"] == "installation"


def test_the_client_of_the_settings_stands_above_the_user_agent(tmp_path):
    with interface(tmp_path / "memory.db", MCP_CLIENT_ID="from-settings") as web:
        assert set_fact(web, "k", "v").json()["source_client"] == "from-settings"
        event = web.get("/events").json()["events"][0]
    assert event["source_client"] == "from-settings"
