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
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
