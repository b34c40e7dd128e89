"""Completions of what a client is typing: namespaces, keys and tags, by their beginning."""

from collections.abc import Callable, Mapping

from mcp_types import CompleteRequestParams, CompleteResult, Completion, PromptReference

from memory_gateway.context import Context
from memory_gateway.prompts import PROMPTS
from memory_gateway.resources import TEMPLATE
from memory_gateway.tools.arguments import shorten
from memory_store.contract import DEFAULT_NAMESPACE, Invalid

MOST = 100
Given = Mapping[str, str]
"""What the other arguments are already."""
Completer = Callable[[Context, str, Given], Completion]


def complete(context: Context, params: CompleteRequestParams) -> CompleteResult:
    """Raises `Invalid` if there is no such prompt, template or argument."""
    completer = _completer(params)
    given = (params.context.arguments if params.context else None) or {}
    return CompleteResult(completion=completer(context, params.argument.value, given))


def _completer(params: CompleteRequestParams) -> Completer:
    reference = params.ref
    if isinstance(reference, PromptReference):
        name, known = reference.name, COMPLETERS_OF_PROMPTS
    else:
        name, known = reference.uri, COMPLETERS_OF_TEMPLATES
    if name not in known:
        raise Invalid(f"Nothing is completed for `{shorten(name)}`, but for: {', '.join(known)}.")
    completers = known[name]
    if params.argument.name not in completers:
        asked, allowed = shorten(params.argument.name), ", ".join(completers)
        raise Invalid(f"`{asked}` is not an argument of {name}. Completed are: {allowed}.")
    return completers[params.argument.name]


def _namespaces(context: Context, beginning: str, _given: Given) -> Completion:
    names = (info.name for info in context.store.namespace_list())
    found = [name for name in names if name.startswith(beginning)]
    return Completion(values=found[:MOST], total=len(found), has_more=len(found) > MOST)


def _keys(context: Context, beginning: str, given: Given) -> Completion:
    namespace = _namespace(given)
    page = context.store.fact_list(context.caller, namespace, prefix=beginning, limit=MOST)
    return _counted([fact.key for fact in page.facts], has_more=page.next_cursor is not None)


def _tags(context: Context, beginning: str, given: Given) -> Completion:
    found = context.store.tag_list(_namespace(given), beginning, MOST + 1)
    return _counted(found[:MOST], has_more=len(found) > MOST)


def _namespace(given: Given) -> str:
    return given.get("namespace") or DEFAULT_NAMESPACE


def _counted(values: list[str], *, has_more: bool) -> Completion:
    return Completion(values=values, total=None if has_more else len(values), has_more=has_more)


BY_ARGUMENT: dict[str, Completer] = {
    "namespace": _namespaces,
    "key": _keys,
    "topic": _keys,
    "tag": _tags,
}
COMPLETERS_OF_TEMPLATES: dict[str, dict[str, Completer]] = {
    TEMPLATE.uri_template: {name: BY_ARGUMENT[name] for name in ("namespace", "key")},
}
COMPLETERS_OF_PROMPTS: dict[str, dict[str, Completer]] = {
    it.prompt.name: {
        argument.name: BY_ARGUMENT[argument.name] for argument in it.prompt.arguments or ()
    }
    for it in PROMPTS
}
