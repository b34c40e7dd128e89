"""What a question to the memory is asked with."""

from dataclasses import dataclass, field

from memory_embedder.contract import QueryEmbedder
from memory_gateway.guard import GuardedStore
from memory_store.contract import Caller, Fact


@dataclass
class Context:
    """One call: the store as its caller may use it, and which facts the call has changed."""

    store: GuardedStore
    embedder: QueryEmbedder
    caller: Caller
    changed: list[Fact] = field(default_factory=list[Fact])

    def wrote(self, fact: Fact) -> Fact:
        self.changed.append(fact)
        return fact
