"""Settings come from the environment once; a bad one is a sentence."""

import sys
from pathlib import Path

import pytest

from memory_embedder import settings
from memory_embedder.settings import BadSetting


def test_the_defaults(monkeypatch):
    for name in settings.EmbedderSettings.model_fields:
        monkeypatch.delenv(f"MCP_{name.upper()}", raising=False)
    read = settings.read()
    assert (read.embeddings, read.preload_model, read.model_dir) == (True, False, None)
    assert read.embedding_model == "all-MiniLM-L6-v2"
    assert (read.query_deadline_ms, read.embedding_threads) == (1000, 1)


@pytest.mark.parametrize(("value", "meaning"), [("on", True), ("off", False), ("", True)])
def test_embeddings_are_switched_by_a_word(monkeypatch, value: str, meaning: bool):
    monkeypatch.setenv("MCP_EMBEDDINGS", value)
    assert settings.read().embeddings is meaning


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("MCP_EMBEDDINGS", "maybe", "MCP_EMBEDDINGS must be on or off, not 'maybe'."),
        ("MCP_EMBEDDING_THREADS", "3", "MCP_EMBEDDING_THREADS must be 1 or 2, not '3'."),
        ("MCP_QUERY_DEADLINE_MS", "soon", "MCP_QUERY_DEADLINE_MS must be a number of millisec"),
        ("MCP_EMBEDDING_MODEL", "../x", "MCP_EMBEDDING_MODEL must be the name of a model"),
        ("MCP_MODEL_DIR", "~nobody-at-all/x", "MCP_MODEL_DIR must be a folder that holds models"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(monkeypatch, name, value, sentence):
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting) as refusal:
        settings.read()
    assert str(refusal.value).startswith(sentence)


def test_a_chosen_folder_is_the_only_one_that_is_looked_in(monkeypatch):
    monkeypatch.setenv("MCP_MODEL_DIR", "~/models")
    assert settings.read().model_folders == (Path.home() / "models",)


def test_the_installation_s_folder_comes_before_the_user_s(monkeypatch):
    monkeypatch.delenv("MCP_MODEL_DIR", raising=False)
    first, second = settings.read().model_folders
    assert first == Path(sys.prefix, "share", "memory-bridge", "models")
    assert second.parts[-2:] == ("memory-bridge", "models")
