"""What turns text into vectors, in two short protocols. No technology lives here."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from memory_store.contract import ModelIdentity

Condition = Literal["ok", "down", "off", "unknown"]


class EmbedderUnavailable(Exception):
    """No vector can be had now. The message is a sentence that says why and what to do."""


class Embedder(Protocol):
    """A model. Loaded on first use, by one thread however many ask; callable from any thread.

    A vector is little-endian float32 bytes of length 1, `identity.dimension` × 4 bytes long.
    Every method may raise `EmbedderUnavailable`.
    """

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the space that the vectors live in."""
        ...

    def windows(self, text: str) -> list[str]:
        """Cuts a text into overlapping pieces that the model reads whole; short text is one piece.

        Never empty: a text without a word is one piece too.
        """
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Returns one vector a text, in order. Cuts off what the model cannot read."""
        ...


class QueryVector(NamedTuple):
    """A query's vector and the `id` of the identity that made it.

    They come together, since the model of a worker elsewhere may change between two queries.
    """

    vector: bytes
    model: str


class QueryEmbedder(Protocol):
    """What the gateway asks for a query's vector."""

    def query(self, text: str) -> QueryVector:
        """Returns the query's vector. Raises `EmbedderUnavailable` after the deadline."""
        ...

    def trouble(self) -> str | None:
        """Says why there would be no vector now, in a sentence, or None if nothing is known.

        Returns within about a second and never raises.
        """
        ...

    def conditions(self) -> Mapping[str, Condition]:
        """Says how each thing is that a vector needs: the `model`, and the `queue` to it if there
        is one. `unknown` is a model that nobody has asked yet, or that cannot be asked.

        Returns within about a second and never raises.
        """
        ...
