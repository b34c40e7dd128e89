"""Preparing a model puts it there whole, once, however many try; or says why it cannot."""

import importlib.util
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_embedder import models, prepare, sources


def build_small(_: Path, model: Path) -> None:
    for name in models.FILES:
        (model / name).write_text(f"what {name} holds")
    (model / models.MANIFEST).write_text(prepare._manifest(model).model_dump_json())


def build_never(_: Path, model: Path) -> None:
    raise AssertionError(f"{model} was built although it is there")


def test_a_model_is_put_into_its_folder_and_nothing_else_is(tmp_path: Path):
    assert prepare.prepare(tmp_path / "models", build_small)
    [place] = (tmp_path / "models").iterdir()
    assert place.name == models.DEFAULT_MODEL
    assert models.is_valid(models.DEFAULT_MODEL, place)


def test_a_model_that_is_there_is_not_built_again(tmp_path: Path):
    prepare.prepare(tmp_path, build_small)
    assert not prepare.prepare(tmp_path, build_never)


@pytest.mark.parametrize("file", [*models.FILES, models.MANIFEST])
def test_a_broken_model_is_replaced(tmp_path: Path, file: str):
    prepare.prepare(tmp_path, build_small)
    (tmp_path / models.DEFAULT_MODEL / file).write_text("broken")
    assert prepare.prepare(tmp_path, build_small)
    assert models.is_valid(models.DEFAULT_MODEL, tmp_path / models.DEFAULT_MODEL)
    assert len(list(tmp_path.iterdir())) == 1


def test_two_at_once_both_succeed(tmp_path: Path):
    together = threading.Barrier(2)

    def build(scratch: Path, model: Path) -> None:
        build_small(scratch, model)
        together.wait(10)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: prepare.prepare(tmp_path, build), range(2)))
    assert [place.name for place in tmp_path.iterdir()] == [models.DEFAULT_MODEL]
    assert models.is_valid(models.DEFAULT_MODEL, tmp_path / models.DEFAULT_MODEL)


def test_a_faster_run_s_model_stays(tmp_path: Path):
    def build(scratch: Path, model: Path) -> None:
        build_small(scratch, model)
        prepare.prepare(tmp_path, build_small)
        faster.append((tmp_path / models.DEFAULT_MODEL).stat().st_ino)

    faster = list[int]()
    prepare.prepare(tmp_path, build)
    assert (tmp_path / models.DEFAULT_MODEL).stat().st_ino == faster[0]


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(AssertionError):
        prepare.prepare(tmp_path, build_never)
    assert list(tmp_path.iterdir()) == []


def test_everybody_may_read_a_prepared_model(tmp_path: Path):
    prepare.prepare(tmp_path, build_small)
    place = tmp_path / models.DEFAULT_MODEL
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (place, *place.iterdir()))


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path, monkeypatch):
    def install(missing: list[sources.Source], scratch: Path) -> None:
        for source in missing:
            (scratch / source.file).parent.mkdir(parents=True)
            (scratch / source.file).write_text("something else")

    monkeypatch.setattr(sources, "_install", install)
    with pytest.raises(sources.PrepareError, match="not the file that is pinned"):
        sources.fetch(sources.SOURCES, tmp_path)


def test_without_an_installer_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(sources.PrepareError, match="ensurepip"):
        sources._installer()


def test_the_command_reports_a_failure_as_a_sentence(tmp_path: Path, monkeypatch, capsys):
    def fail(*_: object) -> bool:
        raise sources.PrepareError("It cannot be fetched.")

    monkeypatch.setattr(prepare, "prepare", fail)
    assert prepare.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == "It cannot be fetched.\n"


def test_the_prepared_model_is_the_one_that_is_pinned(embedder):
    built_from = models.find(models.DEFAULT_MODEL, embedder._folders).manifest
    assert built_from.files[models.TOKENIZER] == sources.TOKENIZER_SOURCE.file_hash
    assert built_from.built_with[sources.GRAPH_SOURCE.package] == sources.GRAPH_SOURCE.version
    assert built_from.max_tokens == 256
