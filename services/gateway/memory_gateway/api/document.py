"""The OpenAPI document: what the routes say, and what holds for all of them."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import compile_path

from memory_gateway.problems import KINDS, MEDIA_TYPE, ProblemDetails, problem
from memory_gateway.version import VERSION
from memory_store.contract import Word

Schema = dict[str, Any]

TITLE = "Memory Bridge"
DESCRIPTION = (
    "One memory that every client shares. A fact is a text under a key of a namespace; every change"
    " makes a version and leaves an event. Errors are problem details (RFC 9457)."
)
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "The installation's token, or one made for a client.",
}
STREAM = "text/event-stream"
REFERENCES = "#/components/{kind}/{name}"
EVERYWHERE = (401, 403, 405, 421, 422, 429, 500, 503)
WITH_BODY = (408, 413, 415)
TEXT_HEADER = {"schema": {"type": "string"}}
RETRY_AFTER = {
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 0}}
}
HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": TEXT_HEADER},
    405: {"Allow": TEXT_HEADER},
    429: RETRY_AFTER,
    503: RETRY_AFTER,
}
FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")


def errors(*statuses: int) -> dict[int | str, Schema]:
    """The errors of a route beside those that every one has."""
    return {status: {"$ref": _reference("responses", _name(status))} for status in statuses}


def describe(app: FastAPI, further: Schema) -> Schema:
    """Makes the document of all the routes there are; `further` describes paths of other kinds."""
    document = get_openapi(title=TITLE, version=VERSION, description=DESCRIPTION, routes=app.routes)
    document["paths"] |= deepcopy(further)
    for operation in operations(document):
        _complete(operation)
    components = cast("Schema", document.setdefault("components", {}))
    schemas = _schemas(components.get("schemas", {}))
    document["components"] = {
        "schemas": schemas,
        "responses": {_name(status): _response(status) for status in KINDS},
        "securitySchemes": {"bearer": BEARER},
    }
    document["security"] = [{"bearer": []}]
    return document


def operations(document: Schema) -> list[Schema]:
    return [operation for path in document["paths"].values() for operation in path.values()]


class Operations:
    """What the document says that may be asked, and where."""

    def __init__(self, document: Schema) -> None:
        self._parameters = {
            operation["operationId"]: _parameters(operation) for operation in operations(document)
        }
        self._methods = [
            (compile_path(path)[0], ", ".join(sorted(_allowed(methods))))
            for path, methods in document["paths"].items()
        ]

    def query(self, operation_id: str) -> dict[str, bool]:
        """The names that its query may hold, each with whether it may be there repeatedly."""
        return self._parameters[operation_id]["query"]

    def headers(self, operation_id: str) -> Iterable[str]:
        return self._parameters[operation_id]["header"]

    def methods(self, path: str) -> str | None:
        """The methods that are served at a path, as `Allow` lists them; None if there is none."""
        return next((methods for pattern, methods in self._methods if pattern.match(path)), None)


def _allowed(methods: Schema) -> Iterator[str]:
    for method, operation in methods.items():
        yield method.upper()
        if method == "get" and STREAM not in operation["responses"]["200"].get("content", {}):
            yield "HEAD"


def _parameters(operation: Schema) -> dict[str, dict[str, bool]]:
    places: dict[str, dict[str, bool]] = {"query": {}, "header": {}, "path": {}}
    for parameter in operation.get("parameters", ()):
        repeated = parameter["schema"].get("type") == "array"
        places[parameter["in"]][parameter["name"]] = repeated
    return places


def _complete(operation: Schema) -> None:
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"] = _without_null(parameter["schema"])
        parameter["description"] = schema.pop("description", parameter.get("description", ""))
    statuses = (*EVERYWHERE, *(WITH_BODY if "requestBody" in operation else ()))
    responses = {
        status: {"$ref": response["$ref"]} if "$ref" in response else response
        for status, response in operation["responses"].items()
        if status != "422"
    }
    responses |= {str(status): reference for status, reference in errors(*statuses).items()}
    operation["responses"] = dict(sorted(responses.items()))


def _without_null(schema: Schema) -> Schema:
    """What is optional is left out; a query or a header cannot hold null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "title")}
    if len(options) == 1:
        return options[0] | rest
    return rest | ({"anyOf": options} if options else {})


def _schemas(schemas: Schema) -> Schema:
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    problem.pop("$defs")  # the fact in it is there already
    kept = {name: schema for name, schema in schemas.items() if name not in FASTAPI_ERRORS}
    for word in _descendants(Word):
        kept.get(word.__name__, {}).pop("additionalProperties", None)  # later there may be more
    return dict(sorted((kept | {"ProblemDetails": problem}).items()))


def _descendants(parent: type) -> Iterator[type]:
    for child in parent.__subclasses__():
        yield child
        yield from _descendants(child)


def _response(status: int) -> Schema:
    meaning = KINDS[status].meaning
    shown = {
        "schema": {"$ref": _reference("schemas", "ProblemDetails")},
        "example": problem(status, meaning).model_dump(exclude_none=True),
    }
    return {
        "description": meaning,
        "headers": HEADERS.get(status, {}),
        "content": {MEDIA_TYPE: shown},
    }


def _name(status: int) -> str:
    return KINDS[status].title.replace(" ", "")


def _reference(kind: str, name: str) -> str:
    return REFERENCES.format(kind=kind, name=name)
