"""The wire, drawn from the `Store` protocol: both ends read the same operations.

`POST /<method>` takes the arguments as a JSON object and answers the result as JSON; an error
is a `Problem` as JSON under its class's status.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

from memory_store.contract import Invalid, Store, Word
from memory_store.limits import MAX_DEPTH

# The client lets an idle connection go before the server does: a request on a connection that
# the server is just closing is lost without anybody knowing whether it arrived.
CLIENT_IDLE_SECONDS = 15
SERVER_IDLE_SECONDS = 60


def authorization(secret: str) -> bytes:
    """Returns the `Authorization` header of who knows the secret; ValueError if it is none."""
    if not secret or secret != secret.strip() or not secret.isprintable():
        raise ValueError("a store's secret is printable text without spaces around it")
    return f"Bearer {secret}".encode()


@dataclass(frozen=True)
class Operation:
    """One method of the contract as it travels. Arguments that are not allowed raise `Invalid`."""

    name: str
    method: Callable[..., Any]

    @property
    def path(self) -> str:
        return f"/{self.name}"

    @cached_property
    def signature(self) -> inspect.Signature:
        declared = inspect.signature(self.method)
        hints = get_type_hints(self.method, include_extras=True)
        parameters = [
            parameter.replace(annotation=hints[name])
            for name, parameter in declared.parameters.items()
            if name != "self"
        ]
        return declared.replace(parameters=parameters, return_annotation=hints["return"])

    @cached_property
    def arguments(self) -> type[Word]:
        fields: dict[str, Any] = {
            name: (
                parameter.annotation,
                ... if parameter.default is parameter.empty else parameter.default,
            )
            for name, parameter in self.signature.parameters.items()
        }
        title = self.name.title().replace("_", "")
        return create_model(f"{title}Arguments", __base__=Word, **fields)

    @property
    def returns(self) -> Any:
        return self.signature.return_annotation

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        # A word brings its own configuration, anything else needs to be told about base64.
        is_word = inspect.isclass(self.returns) and issubclass(self.returns, Word)
        return TypeAdapter(self.returns, config=None if is_word else Word.model_config)

    def bind(self, *args: Any, **kwargs: Any) -> Word:
        given = self.signature.bind(*args, **kwargs).arguments
        try:
            return self.arguments.model_validate(given, strict=True)
        except ValidationError as error:
            raise _invalid(error) from error

    def encode_arguments(self, arguments: Word) -> bytes:
        for argument, text in _texts(arguments):
            _check_encodable(argument, text)
        return arguments.model_dump_json().encode()

    def decode_arguments(self, body: bytes) -> Word:
        try:
            return self.arguments.model_validate_json(body, strict=True)
        except ValidationError as error:
            raise _invalid(error) from error

    def encode_result(self, result: Any) -> bytes:
        return self.result.dump_json(result)

    def decode_result(self, body: bytes) -> Any:
        return self.result.validate_json(body, strict=True)


OPERATIONS: dict[str, Operation] = {
    name: Operation(name, method)
    for name, method in vars(Store).items()
    if inspect.isfunction(method) and not name.startswith("_")
}

_FIELDS = frozenset(field for word in Word.__subclasses__() for field in word.model_fields)


def _invalid(error: ValidationError) -> Invalid:
    first, *_ = faults = error.errors(include_url=False, include_input=False)
    if not first["loc"]:
        return Invalid(f"the arguments are not a JSON object: {first['msg']}")
    argument = _argument(first)
    reasons = dict.fromkeys(fault["msg"] for fault in faults if _argument(fault) == argument)
    return Invalid(f"{argument}: {' or '.join(reasons)}", argument=argument)


def _argument(fault: ErrorDetails) -> str:
    """A field inside a word goes by its own name: `write.key` is `key`, as in the tools."""
    place = fault["loc"]
    if fault["type"] == "extra_forbidden":
        return str(place[-1])
    return str(next((part for part in place[1:] if part in _FIELDS), place[0]))


def _texts(value: object, argument: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text inside a value, with the name of the field that holds it."""
    if depth > MAX_DEPTH:
        raise Invalid(
            f"{argument} is nested too deeply; at most {MAX_DEPTH} levels are allowed",
            argument=argument,
        )
    match value:
        case str():
            yield argument, value
        case BaseModel():
            for name, inner in value:
                yield from _texts(inner, name)
        case dict():
            for name, inner in cast("dict[object, object]", value).items():
                yield from _texts(name, argument)
                yield from _texts(inner, argument, depth + 1)
        case list() | tuple():
            for inner in cast("list[object]", value):
                yield from _texts(inner, argument, depth + 1)
        case _:
            pass


def _check_encodable(argument: str, text: str) -> None:
    """JSON in UTF-8 carries every text but this; the key of an object would even pass, changed."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{argument} has a lone surrogate at character {error.start + 1}; "
            "any Unicode text without one is allowed",
            argument=argument,
        ) from None
