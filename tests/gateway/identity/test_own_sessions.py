"""A session belongs to the principal that opened it, and a flood of them ends only its own."""

from contextlib import ExitStack, closing

from gateway.identity.asking import PING, bearer, client_of, opened
from gateway_serving import INITIALIZE, TOKEN, http_server
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office


def test_a_session_is_there_for_the_principal_that_opened_it_alone(web, token):
    session = opened(web, TOKEN)
    unknown = {"Mcp-Session-Id": "0" * 32}
    for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
        theirs, nobodys = (
            web.request(method, "/mcp", json=body, headers=bearer(token.secret) | named)
            for named in (session, unknown)
        )
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json() == nobodys.json()
    both = [*bearer(token.secret).items(), *opened(web, token.secret).items(), *session.items()]
    assert web.post("/mcp", json=PING, headers=both).status_code == 404
    assert web.post("/mcp", json=PING, headers=bearer(TOKEN) | session).status_code == 200


def test_a_session_outlives_the_rotation_of_its_token(web, office, token):
    session = opened(web, token.secret)
    rotated = office.rotate(token.token.name, 60.0)
    answer = web.post("/mcp", json=PING, headers=bearer(rotated.secret) | session)
    assert answer.status_code == 200


def test_a_flood_of_sessions_ends_only_sessions_of_its_own(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_MAX_SESSIONS="10") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
    ):
        one, other = (Office(store).create(name, ("read",)).secret for name in ("one", "other"))
        kept = [opened(web, one), opened(web, TOKEN)]
        flood = [opened(web, other) for _ in range(30)]
        late = opened(web, one)

        def answered(secret, session):
            return web.post("/mcp", json=PING, headers=bearer(secret) | session).status_code

        assert [answered(one, kept[0]), answered(TOKEN, kept[1])] == [200, 200]
        assert answered(one, late) == 200
        assert [answered(other, session) for session in flood].count(200) == 7


def test_who_uses_all_sessions_it_may_have_leaves_room_for_another(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_MAX_SESSIONS="10") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
        ExitStack() as streams,
    ):
        other = Office(store).create("other", ("read",)).secret
        for _ in range(9):
            session = bearer(other) | opened(web, other)
            streams.enter_context(web.stream("GET", "/mcp", headers=session))
        assert web.post("/mcp", json=INITIALIZE, headers=bearer(other)).status_code == 503
        opened(web, TOKEN)
