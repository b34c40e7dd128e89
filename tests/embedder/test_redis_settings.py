"""The address of Redis and its password come from variables or files, and are never repeated."""

import pytest

from memory_embedder.settings import BadSetting, read_redis


@pytest.fixture
def environment(monkeypatch, tmp_path):
    def put(**settings: str) -> None:
        for name, value in settings.items():
            variable = f"MCP_REDIS_{name.upper()}"
            if name.endswith("_file"):
                file = tmp_path / name
                file.write_text(f"{value}\n")
                monkeypatch.setenv(variable, str(file))
            else:
                monkeypatch.setenv(variable, value)

    for name in ("URL", "URL_FILE", "PASSWORD_FILE"):
        monkeypatch.delenv(f"MCP_REDIS_{name}", raising=False)
    return put


def url() -> str | None:
    found = read_redis().url
    return found and found.get_secret_value()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"url": "redis://h:1/2"}, "redis://h:1/2"),
        ({"url_file": "rediss://u:p@h/0"}, "rediss://u:p@h/0"),
        ({"url": "redis://h:1/2", "password_file": "p@:/ß"}, "redis://:p%40%3A%2F%C3%9F@h:1/2"),
        ({"url_file": "redis://u@h", "password_file": "secret"}, "redis://u:secret@h"),
        ({"password_file": "secret"}, None),
    ],
)
def test_the_address_has_the_password_wherever_it_was_found(environment, given, expected):
    environment(**given)
    assert url() == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"url": "http://:secret@h"}, "MCP_REDIS_URL must be redis://… or rediss://…"),
        ({"url": "redis://h", "url_file": "redis://h"}, "exclude each other: set one of them."),
        ({"url": "redis://:secret@h", "password_file": "secret"}, "not in both."),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(environment, given, sentence):
    environment(**given)
    with pytest.raises(BadSetting) as refused:
        read_redis()
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named_by_its_variable(monkeypatch, environment):
    environment()
    monkeypatch.setenv("MCP_REDIS_URL_FILE", "/nowhere/at/all")
    with pytest.raises(BadSetting, match="MCP_REDIS_URL_FILE must be the name of a text file"):
        read_redis()
