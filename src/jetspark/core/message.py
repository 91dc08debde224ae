"""A received message, as users see it, and the checks of a payload to publish.

A message is a view on a frame: it decodes and parses a part when the part is read.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import msgspec

from jetspark.errors import MaxPayloadError, UsageError
from jetspark.wire import MsgFrame
from jetspark.wire.headers import NO_HEADERS, Headers, HeadersLike

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Msg", "Received", "as_bytes", "too_large"]


class Received(msgspec.Struct, gc=False, eq=False):
    """The readable part that all kinds of messages share."""

    _frame: MsgFrame

    @property
    def subject(self) -> str:
        """The subject it was published to."""
        return self._frame.subject.decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        """The subject for the answer; empty when no answer is expected."""
        return self._frame.reply.decode("utf-8", "surrogateescape")

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._frame.data

    @property
    def headers(self) -> Headers:
        """The headers, parsed at each access: keep the result to read several."""
        header = self._frame.header
        return Headers.parse(header) if header else NO_HEADERS

    def __repr__(self) -> str:
        reply = f", reply={self.reply!r}" if self._frame.reply else ""
        return f"{type(self).__name__}(subject={self.subject!r}{reply}, {len(self._frame.data)} bytes)"


class Msg(Received, gc=False, eq=False):
    """A message that a subscription received."""

    _connection: Connection

    def respond(self, data: bytes = b"", *, headers: HeadersLike | None = None) -> Awaitable[None]:
        """Publish an answer to `reply`. With asyncio, awaiting it is optional, as for `Connection.publish`.

        Raises `UsageError` when the message has no reply subject.
        """
        if not self._frame.reply:
            raise UsageError(f"the message on {self.subject!r} has no reply subject to respond to")
        return self._connection.publish(self.reply, data, headers=headers)


def as_bytes(data: object) -> bytes:
    """A payload as bytes. Raises `UsageError` unless it is a bytes-like object."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise UsageError(f"data must be bytes, not {type(data).__name__}", hint="Encode it: text.encode()")


def too_large(size: int, max_payload: int) -> MaxPayloadError:
    """The error for a message of `size` bytes, headers included, that exceeds the server's limit."""
    return MaxPayloadError(
        f"the message has {size} bytes, the server takes {max_payload}",
        hint="Split it, or raise max_payload in the server's configuration",
    )
