"""Arguments as real clients send them: tolerant of their shape, exact about what is wrong."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, NoReturn, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from memory_gateway.tools.schemas import Schema, input_schema
from memory_store.contract import Invalid

Arguments = TypeVar("Arguments", bound=BaseModel)

SHOWN = 60
NUMBERS = {"integer": "a whole number", "number": "a number"}
KINDS = {"string": "text", "boolean": "true or false", "object": "an object", **NUMBERS}


def read_arguments(tool: str, model: type[Arguments], given: Mapping[str, Any] | None) -> Arguments:
    """Returns the arguments; raises `Invalid`, naming the argument and what is allowed."""
    schema = input_schema(model)
    try:
        arguments = _as_meant(dict(given or {}), schema)
        for name, value in arguments.items():
            _check_text(name, name, value)
    except RecursionError:
        raise Invalid("The arguments are nested too deeply.") from None
    try:
        return model.model_validate(arguments, strict=True)
    except ValidationError as error:
        _refuse(tool, schema, _most_telling(error.errors(include_url=False)))


def _as_meant(value: Any, schema: Schema) -> Any:
    """A number, boolean, list or object that came as its JSON text becomes what it says."""
    kinds = _kinds(schema)
    if isinstance(value, str) and "string" not in kinds:
        value = _parsed(value)
    if isinstance(value, float) and "integer" in kinds and value.is_integer():
        return int(value)
    if isinstance(value, list) and "items" in schema:
        return [_as_meant(item, schema["items"]) for item in cast("list[Any]", value)]
    if isinstance(value, dict) and "properties" in schema:
        return _members_as_meant(cast("dict[str, Any]", value), schema)
    return cast("Any", value)


def _members_as_meant(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    properties, required = schema["properties"], schema.get("required", [])
    return {
        name: _as_meant(member, properties.get(name, {}))
        for name, member in value.items()
        if member is not None or name in required or name not in properties
    }


def _kinds(schema: Schema) -> set[str]:
    options: list[Schema] = schema.get("anyOf", [schema])
    return {option.get("type", "string") for option in options}


def _parsed(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(parsed, str) else parsed


def _check_text(argument: str, path: str, value: Any) -> None:
    """Refuses what JSON can spell but no text or number is: lone surrogates, NaN, infinities."""
    if isinstance(value, str):
        if not _is_text(value):
            raise Invalid(
                f"`{shorten(path)}` contains a lone surrogate, which is not a character.",
                argument=argument,
            )
    elif isinstance(value, float):
        if not isfinite(value):
            message = f"`{shorten(path)}` must be a finite number, not {value}."
            raise Invalid(message, argument=argument)
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            _check_text(argument, path, key)
            _check_text(argument, f"{path}.{key}", member)
    elif isinstance(value, list):
        for place, item in enumerate(cast("list[Any]", value)):
            _check_text(argument, f"{path}[{place}]", item)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _most_telling(errors: list[ErrorDetails]) -> ErrorDetails:
    """A misspelled name first: what it was meant for is then missing too."""
    return next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])


def _refuse(tool: str, schema: Schema, error: ErrorDetails) -> NoReturn:
    path, allowed = _locate(schema, error["loc"])
    top = str(error["loc"][0])
    if error["type"] == "missing":
        raise Invalid(f"`{path}` is required: {described(allowed)}.", argument=top)
    if error["type"] == "extra_forbidden":
        parent = _locate(schema, error["loc"][:-1])[1]
        raise Invalid(_unknown(tool, path, parent["properties"]), argument=top)
    got = shown(error["input"])
    if error["type"] in {"too_long", "too_short"}:
        got = f"of {len(error['input'])}"
    raise Invalid(f"`{path}` must be {described(allowed)}, not {got}.", argument=top)


def _locate(schema: Schema, location: Iterable[str | int]) -> tuple[str, Schema]:
    """The path as a person writes it (`writes[3].key`) and the schema that holds there."""
    path = ""
    for step in location:
        if "properties" in schema and isinstance(step, str):
            schema = schema["properties"].get(step, {})
            path += f".{step}" if path else step
        elif "items" in schema and isinstance(step, int):
            schema = schema["items"]
            path += f"[{step}]"
        else:
            break
    return path, schema


def _unknown(tool: str, path: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    near = get_close_matches(path.rsplit(".", 1)[-1], names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    return f"`{shorten(path)}` is not an argument of {tool}.{hint} Allowed: {', '.join(names)}."


def described(schema: Schema) -> str:
    """What a schema allows, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if "anyOf" in schema:
        return " or ".join(described(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return _described_list(schema)
    words = KINDS.get(schema.get("type", ""), "a value")
    return words + _described_limits(schema)


def _described_list(schema: Schema) -> str:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    kind = schema["items"].get("type", "")
    return ("a list of " if high is None else f"a list of {low} to {high} ") + {
        "string": "texts",
        "object": "objects",
    }.get(kind, "values")


def _described_limits(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of {low} or more"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}"
    if "minLength" in schema:
        return f" of at least {schema['minLength']} character"
    return ""


def shown(value: Any) -> str:
    """A value as a sentence can hold it: JSON, ASCII, short."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list of other things"
    return shorten(json.dumps(value, default=lambda _: "something else"))


def shorten(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
