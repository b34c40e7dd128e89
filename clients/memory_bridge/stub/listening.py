"""Streams that stay open: what the server says by itself, taken up again when they break."""

from collections.abc import Sequence
from http import HTTPStatus

from memory_bridge import exits, messages
from memory_bridge.errors import ClientError, ConnectionLost, HTTPFailure, TimedOut
from memory_bridge.messages import Message, as_object
from memory_bridge.pauses import pauses
from memory_bridge.stub.calls import Call
from memory_bridge.stub.link import Link
from memory_bridge.stub.refusals import undelivered

UPDATED = "notifications/resources/updated"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_LISTS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
_HAS_NONE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


def follow_sessions(link: Link) -> None:
    """Listens to each session for as long as it is the present one. Never returns."""
    generation = 0
    while True:
        generation = link.wait_for_session(generation)
        _follow_session(link, generation)


def _follow_session(link: Link, generation: int) -> None:
    for seconds in pauses():
        try:
            link.listen()
        except (ConnectionLost, TimedOut):
            pass  # it broke, or the server has stopped: it is opened again
        except HTTPFailure as refused:
            if refused.status in _HAS_NONE:
                return
        except ClientError:
            return
        if link.wait_for_session(generation, seconds) > generation:
            return


class Subscriptions:
    """The host's `subscriptions/listen` requests. Whatever happens to the stream behind each, the
    host sees one that goes on: what it may have missed is told as changed."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._open: dict[object, bool] = {}

    def follow(self, call: Call) -> Message | None:
        """Returns the error that ended it, None when the host did."""
        self._open[call.id] = False
        try:
            return self._follow(call)
        finally:
            del self._open[call.id]

    def heard(self, message: Message) -> Sequence[Message]:
        """Returns what the host is to hear when the server says this."""
        params = messages.params_of(message)
        meta = as_object(params.get("_meta")) or {}
        if _SUBSCRIPTION not in meta:
            return [message]
        subscription = meta[_SUBSCRIPTION]
        if subscription not in self._open:
            return []
        if message.get("method") != _ACKNOWLEDGED:
            return [message]
        again = self._open[subscription]
        self._open[subscription] = True
        kinds = as_object(params.get("notifications")) or {}
        return list(_all_changed(kinds, meta)) if again else [message]

    def _follow(self, call: Call) -> Message | None:
        for seconds in pauses():
            ended = self._ended(call)
            if call.is_unwanted or ended is not None:
                return ended
            call.pause(seconds)
        raise AssertionError

    def _ended(self, call: Call) -> Message | None:
        """Returns the error that ends the subscription, None if it is to be opened again."""
        try:
            answer = self._link.follow(call.message)
        except ClientError as error:
            late = call.deadline.is_over and not self._open[call.id]
            return undelivered(call, error) if late or not exits.passes(error) else None
        return answer if "error" in answer else None


def _all_changed(kinds: Message, meta: Message) -> Sequence[Message]:
    lists = [method for kind, method in _LISTS.items() if kinds.get(kind) is True]
    uris: Sequence[str] = kinds.get("resourceSubscriptions") or []
    return [
        *(messages.notification(method, {"_meta": meta}) for method in lists),
        *(messages.notification(UPDATED, {"uri": uri, "_meta": meta}) for uri in uris),
    ]
