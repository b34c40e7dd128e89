"""A model is found by name, verified before use, and never replaced by another."""

import hashlib
import json
from pathlib import Path

import pytest

from memory_embedder import models
from memory_embedder.contract import EmbedderUnavailable


def place_model(place: Path, name: str = "tiny", graph: bytes = b"graph") -> Path:
    contents = {models.GRAPH: graph, models.TOKENIZER: b"{}"}
    place.mkdir(parents=True)
    for file, content in contents.items():
        (place / file).write_bytes(content)
    manifest = models.Manifest(
        name=name,
        dimension=3,
        max_tokens=8,
        files={file: hashlib.sha256(content).hexdigest() for file, content in contents.items()},
        built_with={},
    )
    (place / models.MANIFEST).write_text(manifest.model_dump_json())
    return place


def test_a_model_is_found_in_the_first_folder_that_has_it(tmp_path: Path):
    second = place_model(tmp_path / "b" / "tiny")
    place_model(tmp_path / "c" / "tiny")
    found = models.find("tiny", [tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert found.folder == second


def test_a_folder_may_itself_be_the_model(tmp_path: Path):
    place = place_model(tmp_path / "anywhere")
    assert models.find("tiny", [place]).folder == place


def test_a_folder_that_holds_another_model_is_refused(tmp_path: Path):
    place = place_model(tmp_path / "anywhere", name="other")
    with pytest.raises(EmbedderUnavailable, match="holds other"):
        models.find("tiny", [place])


def test_a_missing_model_is_never_replaced_by_another(tmp_path: Path):
    place_model(tmp_path / "other", name="other")
    with pytest.raises(
        EmbedderUnavailable, match=r"tiny is not prepared.*memory_embedder\.prepare"
    ):
        models.find("tiny", [tmp_path])


def test_a_whole_model_verifies(tmp_path: Path):
    models.read("tiny", place_model(tmp_path / "tiny")).verify()


@pytest.mark.parametrize("file", models.FILES)
def test_a_changed_file_is_refused_by_name(tmp_path: Path, file: str):
    place = place_model(tmp_path / "tiny")
    (place / file).write_bytes(b"changed")
    with pytest.raises(EmbedderUnavailable, match=file):
        models.read("tiny", place).verify()


@pytest.mark.parametrize("file", models.FILES)
def test_a_missing_file_is_refused_by_name(tmp_path: Path, file: str):
    place = place_model(tmp_path / "tiny")
    (place / file).unlink()
    with pytest.raises(EmbedderUnavailable, match=file):
        models.read("tiny", place).verify()


@pytest.mark.parametrize("manifest", [b"", b"{", b'{"name": "tiny"}', b"\xff"])
def test_a_broken_manifest_is_refused(tmp_path: Path, manifest: bytes):
    place = place_model(tmp_path / "tiny")
    (place / models.MANIFEST).write_bytes(manifest)
    with pytest.raises(EmbedderUnavailable, match="manifest"):
        models.read("tiny", place)


def test_a_manifest_without_a_hash_for_a_file_is_refused(tmp_path: Path):
    place = place_model(tmp_path / "tiny")
    manifest = json.loads((place / models.MANIFEST).read_text())
    del manifest["files"][models.GRAPH]
    (place / models.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(EmbedderUnavailable, match=models.GRAPH):
        models.read("tiny", place)


def test_the_identity_follows_the_files_and_not_the_place(tmp_path: Path):
    one = models.read("tiny", place_model(tmp_path / "one")).identity
    same = models.read("tiny", place_model(tmp_path / "two")).identity
    other = models.read("tiny", place_model(tmp_path / "three", graph=b"another graph")).identity
    assert one == same
    assert one.id != other.id


def test_no_message_names_a_path(tmp_path: Path):
    with pytest.raises(EmbedderUnavailable) as missing:
        models.find("tiny", [tmp_path])
    place = place_model(tmp_path / "tiny")
    (place / models.GRAPH).unlink()
    with pytest.raises(EmbedderUnavailable) as broken:
        models.read("tiny", place).verify()
    assert str(tmp_path) not in str(missing.value) + str(broken.value)
