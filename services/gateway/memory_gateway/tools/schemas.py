"""JSON schemas as clients get them: inlined, without titles and without `null` where it can go."""

from functools import cache
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

Schema = dict[str, Any]

PROBLEM: Schema = {
    "type": "object",
    "description": "Instead of the rest when the call failed",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "argument": {"type": ["string", "null"]},
        "current": {"type": ["object", "null"]},
    },
}


@cache
def input_schema(model: type[BaseModel]) -> Schema:
    """The schema of a tool's arguments. None of them needs `null`: what is optional is left out."""
    return _trimmed(model, "validation", nullable=False)


@cache
def output_schema(model: type[BaseModel]) -> Schema:
    """The schema of a tool's structured content, with the problem that may take its place.

    Nothing is required at the top, since some clients check error results against it too.
    """
    schema = _trimmed(model, "serialization", nullable=True)
    schema.pop("required", None)
    schema["properties"] = {**schema["properties"], "problem": PROBLEM}
    return schema


def _trimmed(model: type[BaseModel], mode: JsonSchemaMode, *, nullable: bool) -> Schema:
    schema = model.model_json_schema(mode=mode)
    definitions = schema.pop("$defs", {})
    for definition in (schema, *definitions.values()):
        definition.pop("description", None)  # a model's docstring is for its readers
    return _trim(schema, definitions, nullable=nullable)


def _trim(schema: Schema, definitions: Schema, *, nullable: bool) -> Schema:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]] | {
            key: value for key, value in schema.items() if key != "$ref"
        }
    schema = schema if nullable else _without_null(schema)
    trimmed = {key: value for key, value in schema.items() if not _is_noise(key, value)}
    if nullable:
        trimmed.pop("additionalProperties", None)  # a later version may answer more
    for key, value in trimmed.items():
        trimmed[key] = _trim_part(key, value, definitions, nullable=nullable)
    return trimmed


def _trim_part(key: str, value: Any, definitions: Schema, *, nullable: bool) -> Any:
    if key == "properties":
        parts = cast("Schema", value)
        return {name: _trim(part, definitions, nullable=nullable) for name, part in parts.items()}
    if key == "anyOf":
        options = cast("list[Schema]", value)
        return [_trim(option, definitions, nullable=nullable) for option in options]
    if key == "items":
        return _trim(value, definitions, nullable=nullable)
    return value


def _without_null(schema: Schema) -> Schema:
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if len(options) == 1:
        return options[0] | {key: value for key, value in schema.items() if key != "anyOf"}
    return schema | {"anyOf": options} if options else schema


def _is_noise(key: str, value: Any) -> bool:
    """Titles, open objects and empty defaults tell a client nothing."""
    return (
        (key == "title" and isinstance(value, str))
        or (key == "default" and value in (None, False, "", []))
        or (key == "additionalProperties" and value is True)
    )
