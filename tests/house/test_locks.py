"""The locks hold what pyproject.toml asks for: all of it, nothing else, by hash alone."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OURS = PYPROJECT["project"]["name"]
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
GROUPS = PYPROJECT["dependency-groups"]
DEVELOPERS = [line for line in GROUPS["dev"] if isinstance(line, str)]
LOCKS = {
    "server": [f"{OURS}[server,otel,queue]"],
    "gateway": [f"{OURS}[gateway,otel,queue]"],
    "store": [f"{OURS}[store,postgres]"],
    "embedder": [f"{OURS}[embedder,queue]"],
    "embedder-torch": [f"{OURS}[embedder,queue,torch]"],
    "build": GROUPS["build"],
    "checkov": GROUPS["checkov"],
    "dev": [f"{OURS}[server,otel,queue,postgres]", *GROUPS["build"], *DEVELOPERS],
}
TOGETHER = [lock for lock in LOCKS if lock != "checkov"]  # which has an environment to itself


def declared(lines) -> Iterator[Requirement]:
    """Yields the requirements, our own extras replaced by what they ask for."""
    for requirement in map(Requirement, lines):
        if requirement.name == OURS:
            for extra in requirement.extras:
                yield from declared(EXTRAS[extra])
        else:
            yield requirement


def needed(requirements) -> Iterator[Requirement]:
    """Yields the requirements and, as far as they are installed here, all that they need."""
    seen = set()
    waiting = list(requirements)
    for requirement in waiting:
        if str(requirement) not in seen:
            seen.add(str(requirement))
            waiting.extend(further(requirement))
            yield requirement


def further(requirement) -> Iterator[Requirement]:
    for line in requirements_of(requirement.name):
        needs = Requirement(line)
        if needs.marker is None or any(
            needs.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
        ):
            yield needs


def requirements_of(name) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def entries(text) -> Iterator[tuple[str, str, str]]:
    """Yields name, version and the rest of each pinned package: marker, hashes, who asked."""
    for entry in re.split(r"\n(?=[a-z0-9])", text):
        if pin := re.match(r"([a-z0-9._-]+)==(\S+)", entry):
            yield canonicalize_name(pin[1]), pin[2], entry[pin.end() :]


def read(lock):
    return (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")


@pytest.fixture(params=LOCKS)
def lock(request):
    return request.param


@pytest.fixture
def text(lock):
    return read(lock)


def test_a_lock_satisfies_every_requirement(lock, text):
    pins = [(name, version) for name, version, _ in entries(text)]
    unmet = [
        str(requirement)
        for requirement in needed(declared(LOCKS[lock]))
        if not any(
            name == canonicalize_name(requirement.name) and requirement.specifier.contains(version)
            for name, version in pins
        )
    ]
    assert unmet == [], "run `make lock`"


def test_a_lock_holds_nothing_that_nobody_asks_for(lock, text):
    asked = {name for name, _, rest in entries(text) if "(pyproject.toml" in rest}
    wanted = {canonicalize_name(requirement.name) for requirement in declared(LOCKS[lock])}
    assert asked == wanted, "run `make lock`"


def test_every_pin_has_a_hash(text):
    bare = [name for name, _, rest in entries(text) if "--hash=sha256:" not in rest]
    assert bare == []


def test_a_lock_names_no_index(text):
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("lock", TOGETHER)
def test_all_locks_of_one_environment_pin_the_same_versions(text):
    pins, dev = ({entry[:2] for entry in entries(each)} for each in (text, read("dev")))
    known = {name for name, _ in dev}
    assert {pin for pin in pins if pin[0] in known} <= dev


def test_only_what_torch_and_checkov_bring_is_not_tested_with(lock, text):
    pins, dev = ({entry[0] for entry in entries(each)} for each in (text, read("dev")))
    assert pins <= dev or lock in ("embedder-torch", "checkov")
