"""The end of a connection whose client is still sending."""

import asyncio
from asyncio.transports import BaseTransport
from collections.abc import Callable
from typing import Any, cast

LINGER_SECONDS = 5.0
"""How long what still comes is read and dropped."""


class LingeringTransport(asyncio.Transport):
    """Closes only the sending half at first, if something may be unread.

    A socket that is closed while something on it is unread resets the connection, which takes
    from the client what it was told last: the status of a refusal, the reason of a close.
    What comes after `close` is for the protocol to drop.
    """

    def __init__(self, transport: BaseTransport, is_unread: Callable[[], bool]) -> None:
        super().__init__()
        self.bare = cast("asyncio.Transport", transport)
        self._is_unread = is_unread
        self._closing = False

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        if not self._is_unread():
            self.bare.close()
            return
        self.bare.write_eof()
        self.bare.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.bare.close)

    def abort(self) -> None:
        self._closing = True
        self.bare.abort()

    def is_closing(self) -> bool:
        return self._closing or self.bare.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self.bare.write(data)

    def get_write_buffer_size(self) -> int:
        return self.bare.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.bare.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.bare.set_protocol(protocol)

    def pause_reading(self) -> None:
        if not self._closing:
            self.bare.pause_reading()

    def resume_reading(self) -> None:
        self.bare.resume_reading()
