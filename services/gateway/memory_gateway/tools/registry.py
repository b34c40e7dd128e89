"""What a tool is: a name, words for models, two models, and a function over the memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from memory_gateway.context import Context
from memory_gateway.tools.arguments import read_arguments
from memory_gateway.tools.schemas import Schema, input_schema, output_schema
from memory_store.contract import TokenScope

A = TypeVar("A", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[A, R]):
    """A tool. `run` is synchronous and is called on a worker thread; it raises `StoreError`."""

    name: str
    title: str
    description: str
    arguments: type[A]
    output: type[R]
    run: Callable[[Context, A], R]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def scope(self) -> TokenScope:
        """What a token must allow for the tool to be of use."""
        return "read" if self.read_only else "write"

    @property
    def input_schema(self) -> Schema:
        return input_schema(self.arguments)

    @property
    def output_schema(self) -> Schema:
        return output_schema(self.output)

    def read(self, given: Mapping[str, Any] | None) -> A:
        """Returns the arguments. Raises `Invalid`."""
        return read_arguments(self.name, self.arguments, given)


AnyTool = Tool[Any, Any]
