"""Messages, as blocking programs see them. Twin of `core/message.py` and `jetstream/message/delivered.py`.

Acknowledgements and responses go to the connection's writer, without a crossing into the loop and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from jetspark.blocking.mirror import mirrors
from jetspark.core import message as core
from jetspark.errors import Error, UsageError
from jetspark.jetstream.message import delivered as aio
from jetspark.jetstream.message.metadata import Metadata, parse_metadata
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Batch", "JetStreamMsg", "Msg", "ack_all", "blocking_message", "blocking_messages"]


@mirrors(core.Msg)
class Msg(core.Received, gc=False, eq=False):
    _bridge: Bridge

    def respond(self, data: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        if not self._frame.reply:
            raise UsageError(f"the message on {self.subject!r} has no reply subject to respond to")
        frame = self._bridge.connection.frame(self.reply, data, "", headers)
        self._bridge.writer.publish(frame)


@mirrors(aio.JetStreamMsg)
class JetStreamMsg(Msg, gc=False, eq=False):
    _settled: bool

    @property
    def metadata(self) -> Metadata:
        return parse_metadata(self._frame.reply)

    @property
    def settled(self) -> bool:
        return self._settled

    def ack(self) -> None:
        if not self._settled:
            self._bridge.write(aio.ack_frames([self._frame]))
            self._settled = True

    def nak(self, delay: float | None = None) -> None:
        self._settle(aio.nak_body(delay))

    def term(self, reason: str = "") -> None:
        self._settle(aio.term_body(reason))

    def in_progress(self) -> None:
        if not self._settled:
            self._send(aio.IN_PROGRESS)

    def ack_sync(self, timeout: float | None = None) -> None:
        message = self._asynchronous()
        self._bridge.run(message.ack_sync(timeout))
        self._settled = message.settled

    def ack_next(self, expires: float = 5.0) -> JetStreamMsg | None:
        message = self._asynchronous()
        try:
            following = self._bridge.run(message.ack_next(expires))
        finally:
            self._settled = message.settled
        return None if following is None else blocking_messages(self._bridge, [following])[0]

    def respond(self, data: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        parse_metadata(self._frame.reply)
        super().respond(data, headers=headers)

    def _settle(self, kind: bytes) -> None:
        if not self._settled:
            self._send(kind)
            self._settled = True

    def _send(self, kind: bytes) -> None:
        self._bridge.write(aio.ack_frames([self._frame], kind))
        self._bridge.writer.others += 1

    def _ack_all(self, messages: Sequence[JetStreamMsg]) -> None:
        self._bridge.write(aio.ack_frames([message._frame for message in messages]))
        self._bridge.writer.others += 1
        self._bridge.connection.session.tally.acks += len(messages)
        for message in messages:
            message._settled = True

    def _asynchronous(self) -> aio.JetStreamMsg:
        return aio.JetStreamMsg(self._frame, self._bridge.connection, self._settled)


@mirrors(aio.Batch)
class Batch(list[JetStreamMsg]):
    def __init__(self, messages: Iterable[JetStreamMsg] = (), error: Error | None = None) -> None:
        super().__init__(messages)
        self.error = error

    def ack(self) -> None:
        ack_all(self)


@mirrors(aio.ack_all)
def ack_all(messages: Iterable[JetStreamMsg]) -> None:
    pending = [message for message in messages if not message._settled]
    if pending:
        pending[0]._ack_all(pending)


def blocking_message(bridge: Bridge, message: core.Msg) -> Msg:
    """Return the same message for blocking programs."""
    return bridge.connection.class_of(Msg)(message._frame, bridge)


def blocking_messages(bridge: Bridge, messages: Sequence[aio.JetStreamMsg]) -> list[JetStreamMsg]:
    """Return the same messages, all of one consumer, for blocking programs."""
    settled = bool(messages) and messages[0]._settled
    frames = [message._frame for message in messages]
    return list(map(bridge.connection.class_of(JetStreamMsg), frames, repeat(bridge), repeat(settled)))
