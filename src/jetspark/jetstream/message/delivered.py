"""A message that a consumer delivered: its metadata and its acknowledgements.

An acknowledgement is a few bytes to the message's reply subject. It is queued with the other writes of this
turn of the loop: no task, no await. After a terminal acknowledgement further ones are ignored; on a consumer
without acknowledgements all are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Final

from jetspark.core.connection import Connection
from jetspark.core.message import Msg
from jetspark.core.outbox import TURN
from jetspark.errors import Error, NoResponders, UsageError
from jetspark.jetstream.message.metadata import Metadata, parse_metadata
from jetspark.jetstream.model.base import to_ns
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.wire import MsgFrame, acks
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import check_text

__all__ = [
    "Batch",
    "JetStreamMsg",
    "ack_all",
    "ack_frames",
    "give_back",
    "nak_body",
    "term_body",
]

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
IN_PROGRESS: Final = b"+WPI"
NEXT: Final = b"+NXT"
TERM: Final = b"+TERM"

#: Seconds. The server reads nanoseconds in 64 bits.
_LONGEST_DELAY: Final = 9e9


class JetStreamMsg(Msg, gc=False, eq=False):
    """A message that a consumer delivered."""

    # Set when the server expects no acknowledgement: a terminal one was sent, or the consumer takes none.
    _settled: bool

    @property
    def metadata(self) -> Metadata:
        """Stream, consumer, sequences, deliveries, time; parsed each time. Raises `NotJetStreamMessage`."""
        return parse_metadata(self._frame.reply)

    @property
    def settled(self) -> bool:
        """Whether further acknowledgements would be ignored."""
        return self._settled

    def ack(self) -> Awaitable[None]:
        """Acknowledge it. With asyncio, awaiting the result is optional; it waits for back-pressure."""
        if not self._settled:
            size = self._connection.queue_ack(self._frame)
            if not size:
                return self._settle(ACK)
            self._settled = True
            if size >= TURN:
                return self._connection.session.outbox.drained
        return self._connection.session.outbox.done

    def nak(self, delay: float | None = None) -> Awaitable[None]:
        """Refuse it: deliver it again, at once or after `delay` seconds."""
        return self._settle(nak_body(delay))

    def term(self, reason: str = "") -> Awaitable[None]:
        """Give it up: do not deliver it again. `reason` goes into the server's advisory."""
        return self._settle(term_body(reason))

    def in_progress(self) -> Awaitable[None]:
        """Ask for more time: restart the server's `ack_wait`."""
        if self._settled:
            return self._connection.session.outbox.done
        return self._send(IN_PROGRESS)

    async def ack_sync(self, timeout: float | None = None) -> None:
        """Acknowledge and wait until the server has confirmed it (double ack).

        Raises `Timeout` after `timeout` seconds, by default the connection's `request_timeout`, and
        `NoResponders` when the consumer does not exist. The message can be acknowledged again then.
        """
        if self._settled:
            return
        try:
            seconds = self._connection.options.request_timeout if timeout is None else timeout
            await self._connection.request_block(self._reply_to_ack(), ACK, b"", timeout=seconds)
        except NoResponders:
            raise NoResponders(
                "the acknowledgement reached no consumer: it was deleted, or has no leader",
                hint="The message may be delivered again",
            ) from None
        self._settled = True
        self._connection.session.tally.acks += 1

    async def ack_next(self, expires: float = 5.0) -> JetStreamMsg | None:
        """Acknowledge and pull the next message in one packet; None if none arrives within `expires` seconds.

        Ignored, with None, when the message was settled before.
        """
        if self._settled:
            return None
        fetching = fetch_next(self._connection, self._reply_to_ack(), expires)
        self._settled = True
        self._connection.session.tally.acks += 1
        return await fetching

    def respond(self, data: bytes = b"", *, headers: HeadersLike | None = None) -> Awaitable[None]:
        """Publish to the acknowledgement subject. The server reads an empty answer as an acknowledgement.

        With asyncio, awaiting it is optional. Raises `NotJetStreamMessage` for any other reply subject.
        """
        self._reply_to_ack()
        return super().respond(data, headers=headers)

    def _settle(self, kind: bytes) -> Awaitable[None]:
        if self._settled:
            return self._connection.session.outbox.done
        written = self._send(kind)
        self._settled = True
        self._connection.session.tally.acks += kind is ACK
        return written

    def _send(self, kind: bytes) -> Awaitable[None]:
        return self._connection.write(ack_frames([self._frame], kind))

    def _ack_all(self, messages: Sequence[JetStreamMsg]) -> Awaitable[None]:
        """Acknowledge messages of the connection, this one among them, with one write."""
        written = self._connection.write(ack_frames([message._frame for message in messages]))
        self._connection.session.tally.acks += len(messages)
        for message in messages:
            message._settled = True
        return written

    def _reply_to_ack(self) -> str:
        parse_metadata(self._frame.reply)
        return self.reply


def nak_body(delay: float | None) -> bytes:
    """The payload of a nak. Raises `UsageError`."""
    if delay is None:
        return NAK
    if type(delay) not in (int, float) or not 0 <= delay < _LONGEST_DELAY:
        raise UsageError(f"delay must be seconds, 0 or more and less than {_LONGEST_DELAY:g}, not {delay!r}")
    return b'-NAK {"delay": %d}' % to_ns(delay)


def term_body(reason: str) -> bytes:
    """The payload of a term. Raises `UsageError`."""
    if not reason:
        return TERM
    encoded = check_text(reason, "reason").encode()
    if "\r" in reason or "\n" in reason:
        raise UsageError(f"reason must not contain a line break: {reason!r}")
    return TERM + b" " + encoded


def ack_frames(frames: list[MsgFrame], kind: bytes = ACK) -> bytes:
    """The acknowledgements of messages, to be written at once. Raises `NotJetStreamMessage`.

    Any client that knows an inbox can send to it, with any reply: only acknowledgement subjects are used.
    """
    written = acks(frames, kind)
    if not written:
        for frame in frames:
            parse_metadata(frame.reply)
    return written


def give_back(connection: Connection, ack_policy: AckPolicy | str, frames: list[MsgFrame]) -> None:
    """Return unhandled messages to the server, if the policy allows a nak for single messages."""
    if frames and ack_policy == AckPolicy.EXPLICIT:
        with suppress(Error):  # Closed, or the outbox is full: they are delivered again after `ack_wait`.
            connection.write(ack_frames(frames, NAK))


def _nothing_pulls(
    connection: Connection, ack_subject: str, expires: float
) -> Awaitable[JetStreamMsg | None]:
    raise NotImplementedError("jetspark.jetstream.pull.fetch is not imported")


#: Pulls one message through an acknowledgement subject. `pull/fetch.py`, which is above, sets it.
fetch_next = _nothing_pulls


class Batch(list[JetStreamMsg]):
    """The messages of a fetch: a list that can be acknowledged in one call.

    `error` ended the fetch after some messages had arrived; without messages the fetch raises it.
    """

    def __init__(self, messages: Iterable[JetStreamMsg] = (), error: Error | None = None) -> None:
        super().__init__(messages)
        self.error = error

    def ack(self) -> Awaitable[None]:
        """Acknowledge all of them with one write. With asyncio, awaiting the result is optional."""
        return ack_all(self)


class _Nothing:
    """The awaitable for an empty batch."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def ack_all(messages: Iterable[JetStreamMsg]) -> Awaitable[None]:
    """Acknowledge many messages of one connection with one write; settled ones are left out.

    Raises `NotJetStreamMessage` when one of them cannot be acknowledged; then none is. With asyncio, awaiting
    the result is optional; it waits for back-pressure.
    """
    pending = [message for message in messages if not message._settled]
    return pending[0]._ack_all(pending) if pending else _Nothing()
