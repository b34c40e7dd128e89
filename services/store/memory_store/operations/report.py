"""What an operation answers: figures for programs, sentences for people."""

from memory_store.contract import Word


class Report(Word):
    @property
    def is_good(self) -> bool:
        """False when something was found or refused that somebody must see to."""
        return True

    def sentences(self) -> list[str]:
        raise NotImplementedError


def counted(counts: dict[str, int]) -> str:
    """Plural names with their numbers, as a list in a sentence."""
    return ", ".join(f"{n:,} {_singular(name) if n == 1 else name}" for name, n in counts.items())


def _singular(name: str) -> str:
    noun, space, rest = name.partition(" ")
    return f"{noun.removesuffix('s')}{space}{rest}"
