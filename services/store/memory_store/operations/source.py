"""What an import reads: numbered lines of an export, or of the reference server's file."""

import codecs
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from memory_store.contract import Invalid
from memory_store.operations import lines, reference
from memory_store.operations.landing import Landed
from memory_store.operations.lines import FORMAT_VERSION, Header

LONGEST_LINE = 16 * 1024 * 1024


class Source:
    """A file that can be read again. `namespace` is for one that names none."""

    def __init__(self, file: BinaryIO, namespace: str) -> None:
        self.bytes = file.seek(0, 2)
        self._file = file
        self._namespace = namespace
        self._header: Header | None = None
        self._found: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[int, int, Landed | Invalid]]:
        """Yields each line's number, where it ends, and what it says or why it says nothing.

        Raises `Invalid` for a file of another kind.
        """
        self._found.clear()
        texts = self._texts()
        number, text = next(texts, (1, b""))
        if not reference.looks_like(text):
            self._header = _header(text)
        else:
            yield number, self._file.tell(), self._parse(text)
        for number, text in texts:
            yield number, self._file.tell(), self._parse(text)

    def missing(self) -> str | None:
        """Returns what the header promised and the file did not hold."""
        if self._header is None:
            return None
        short = {
            kind: promised
            for kind, promised in self._header.counts.items()
            if self._found[kind] < promised
        }
        if not short:
            return None
        found = ", ".join(
            f"{self._found[kind]:,} of {promised:,} {kind} lines"
            for kind, promised in short.items()
        )
        return f"the file ends early or has lost lines: it holds {found}"

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        self._file.seek(0)
        number = 0
        while text := self._file.readline(LONGEST_LINE):
            number += 1
            if len(text) == LONGEST_LINE and not text.endswith(b"\n"):
                self._skip_line()
            if number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)  # some programs begin every file with it
            if text.strip():
                yield number, text

    def _skip_line(self) -> None:
        while (rest := self._file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass

    def _parse(self, text: bytes) -> Landed | Invalid:
        if len(text) == LONGEST_LINE:
            return Invalid(f"it is longer than {LONGEST_LINE:,} bytes")
        try:
            if self._header is None:
                return reference.parse(text, self._namespace)
            line = lines.parse(text)
        except Invalid as error:
            return error
        if isinstance(line, Header):
            return Invalid("a header stands in the first line only")
        self._found[line.kind] += 1
        return line


def _header(text: bytes) -> Header:
    try:
        header = lines.parse(text)
    except Invalid as error:
        header = error
    if not isinstance(header, Header):
        raise Invalid(
            "the file begins neither as an export does, with a header, nor as one of"
            " server-memory, with an entity or a relation; nothing was imported"
        )
    if header.format_version > FORMAT_VERSION:
        raise Invalid(
            f"the export has format version {header.format_version}, this program knows up to"
            f" {FORMAT_VERSION}; import it with the newer version that wrote it"
        )
    return header
