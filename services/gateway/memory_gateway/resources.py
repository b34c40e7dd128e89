"""Facts as resources: one URI a fact, listed in pages."""

import base64
import json
from urllib.parse import quote, unquote

from mcp_types import (
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from memory_gateway.context import Context
from memory_store.contract import DEFAULT_NAMESPACE, Fact, Invalid, NotFound

SCHEME = "memory://"
PAGE = 100
TEXT = "text/plain"
TEMPLATE = ResourceTemplate(
    name="fact",
    title="A fact",
    uri_template="memory://{namespace}/{key}",
    description="The value of a fact, by namespace and key.",
    mime_type=TEXT,
)


def fact_uri(namespace: str, key: str) -> str:
    return f"{SCHEME}{quote(namespace, safe='')}/{quote(key, safe='')}"


def parse_uri(uri: str) -> tuple[str, str]:
    """Returns namespace and key; slashes of the key may be given as they are.

    Raises `NotFound` for what cannot be the URI of a fact.
    """
    namespace, slash, key = uri.removeprefix(SCHEME).partition("/")
    try:
        names = unquote(namespace, errors="strict"), unquote(key, errors="strict")
    except UnicodeDecodeError:
        names = ("", "")
    if not (uri.startswith(SCHEME) and slash and all(names)):
        raise NotFound(f"A fact's URI is {TEMPLATE.uri_template}, percent-encoded.")
    return names


def read_fact(context: Context, uri: str) -> ReadResourceResult:
    """Raises `NotFound` if there is no such fact."""
    namespace, key = parse_uri(uri)
    fact = context.store.fact_get(context.caller, namespace, key)
    if fact is None:
        raise NotFound("There is no such fact.")
    contents = TextResourceContents(uri=uri, mime_type=TEXT, text=fact.value)
    return ReadResourceResult(contents=[contents])


def list_facts(context: Context, cursor: str | None) -> ListResourcesResult:
    """One page of the facts of all namespaces within reach, the default one first.

    Raises `Invalid`.
    """
    namespace, inner = _read_cursor(cursor) if cursor else (_next_namespace(context, None), None)
    if namespace is None:
        return ListResourcesResult(resources=[])
    store = context.store
    while True:
        page = store.fact_list(context.caller, namespace, limit=PAGE, cursor=inner)
        following = (namespace, page.next_cursor)
        if page.next_cursor is None:
            following = (_next_namespace(context, namespace), None)
        if page.facts or following[0] is None:
            break
        namespace, inner = following[0], None
    return ListResourcesResult(
        resources=[_resource(fact) for fact in page.facts],
        next_cursor=_cursor(following[0], following[1]) if following[0] else None,
    )


def _next_namespace(context: Context, namespace: str | None) -> str | None:
    names = (info.name for info in context.store.namespace_list())
    later = (name for name in names if namespace is None or _place(name) > _place(namespace))
    return min(later, key=_place, default=None)


def _place(namespace: str) -> tuple[bool, str]:
    return namespace != DEFAULT_NAMESPACE, namespace


def _resource(fact: Fact) -> Resource:
    return Resource(
        uri=fact_uri(fact.namespace, fact.key),
        name=fact.key,
        mime_type=TEXT,
        size=len(fact.value.encode()),
    )


def _cursor(namespace: str, inner: str | None) -> str:
    return base64.urlsafe_b64encode(json.dumps([namespace, inner]).encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, str | None]:
    try:
        match json.loads(base64.urlsafe_b64decode(cursor.encode())):
            case [str(namespace), str() | None as inner]:
                return namespace, inner
            case _:
                pass
    except (ValueError, RecursionError):
        pass
    raise Invalid("The cursor is not one that this list gave out.", argument="cursor")
