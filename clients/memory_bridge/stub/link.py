"""The way to the server: its session is renewed, its token read again, behind the host's back."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from memory_bridge import messages
from memory_bridge.deadline import Deadline, Silence
from memory_bridge.errors import ClientError, SessionLost, Unauthorized
from memory_bridge.http import HttpTransport
from memory_bridge.messages import Message
from memory_bridge.stub.refusals import may_have_arrived

T = TypeVar("T")

# The server pings every 15 seconds where nothing else is to be said.
SILENCE_SECONDS = 90.0
_INITIALIZED = messages.notification("notifications/initialized", None)


class Link:
    """Sends messages of either era. What it raises is what a transport raises.

    `generation` counts the sessions that there were. `on_renewed` is called when one took the
    place of another, with the URIs that were subscribed to: they may have changed in between.
    """

    def __init__(
        self,
        transport: HttpTransport,
        read_token: Callable[[], str | None],
        on_renewed: Callable[[Sequence[str]], None],
    ) -> None:
        self.generation = 0
        self._transport = transport
        self._read_token = read_token
        self._token = read_token()
        self._on_renewed = on_renewed
        self._greeting: Message | None = None
        self._settings = _SessionSettings()
        self._renewing = threading.Lock()
        self._is_half_made = False
        self._changed = threading.Condition()

    def request(self, message: Message, deadline: Deadline) -> Message:
        """Returns the answer, which may be an error."""
        if message["method"] == "initialize":
            return self._begin(message, deadline)
        answer = self._in_session(lambda: self._transport.request(message, deadline), deadline)
        if "result" in answer:
            self._settings.note(message)
        return answer

    def follow(self, message: Message) -> Message:
        """Makes a request that is answered when the server ends it, however late."""
        silence = Silence(SILENCE_SECONDS)
        return self._in_session(lambda: self._transport.request(message, silence), silence)

    def listen(self) -> None:
        """Receives what the server says by itself, until it ends the stream."""
        silence = Silence(SILENCE_SECONDS)
        self._in_session(lambda: self._transport.listen(silence), silence)

    def send(self, message: Message, deadline: Deadline) -> None:
        """Sends a notification or an answer, which mean nothing in another session."""
        self._authorized(lambda: self._transport.send(message, deadline))

    def interrupt(self, request_id: object) -> None:
        """Hangs up on a request, which raises where it is waited for."""
        self._transport.interrupt(request_id)

    def wait_for_session(self, after: int, seconds: float | None = None) -> int:
        """Waits for a generation beyond `after`; returns the present one."""
        with self._changed:
            self._changed.wait_for(lambda: self.generation > after, seconds)
            return self.generation

    def _in_session(self, exchange: Callable[[], T], deadline: Deadline) -> T:
        seen = self.generation
        if self._is_half_made:
            self._renew_for(seen, deadline)
        try:
            return self._authorized(exchange)
        except SessionLost:
            # It was refused unread, so doing it once more cannot do it twice.
            self._renew_for(seen, deadline)
            return exchange()

    def _renew_for(self, seen: int, deadline: Deadline) -> None:
        """Raises `SessionLost` also for what broke off meanwhile: that was not the request."""
        try:
            self._renew(seen, deadline)
        except ClientError as error:
            if may_have_arrived(error):
                raise SessionLost(str(error)) from error
            raise

    def _authorized(self, exchange: Callable[[], T]) -> T:
        try:
            return exchange()
        except Unauthorized:
            token = self._read_token()
            if token is None or token == self._token:
                raise
            self._token = token
            self._transport.use_token(token)
            return exchange()

    def _begin(self, greeting: Message, deadline: Deadline) -> Message:
        answer = self._authorized(lambda: self._transport.request(greeting, deadline))
        if "result" in answer:
            self._transport.send(_INITIALIZED, deadline)
            self._greeting = {**greeting, "id": "memory-bridge-initialize"}
            self._enter_generation()
        return answer

    def _renew(self, seen: int, deadline: Deadline) -> None:
        """Greets again as the host did, unless another thread has done so since `seen`."""
        if not self._renewing.acquire(timeout=deadline.remaining()):
            raise deadline.expired()
        try:
            if self.generation == seen and self._greeting is not None:
                self._greet_again(self._greeting, deadline)
        finally:
            self._renewing.release()

    def _greet_again(self, greeting: Message, deadline: Deadline) -> None:
        # Until all is repeated nothing else goes through, and what breaks off is begun anew: the
        # server knows the session already, and what the host subscribed to would be lost in it.
        self._is_half_made = True
        answer = self._authorized(lambda: self._transport.request(greeting, deadline))
        messages.result_of(answer)
        self._transport.send(_INITIALIZED, deadline)
        for message in self._settings.to_repeat():
            self._transport.request(message, deadline)
        self._is_half_made = False
        self._enter_generation()
        self._on_renewed(self._settings.subscriptions)

    def _enter_generation(self) -> None:
        with self._changed:
            self.generation += 1
            self._changed.notify_all()


class _SessionSettings:
    """What the host has set in its session, to be set in the next one too."""

    def __init__(self) -> None:
        self._level: Message | None = None
        self._subscribed: dict[str, Message] = {}

    @property
    def subscriptions(self) -> Sequence[str]:
        return list(self._subscribed)

    def note(self, message: Message) -> None:
        uri = str(messages.params_of(message).get("uri"))
        match message["method"]:
            case "resources/subscribe":
                self._subscribed[uri] = message
            case "resources/unsubscribe":
                self._subscribed.pop(uri, None)
            case "logging/setLevel":
                self._level = message
            case _:
                pass

    def to_repeat(self) -> Sequence[Message]:
        levels = [] if self._level is None else [self._level]
        kept = [*levels, *self._subscribed.values()]
        return [{**message, "id": f"memory-bridge-{number}"} for number, message in enumerate(kept)]
