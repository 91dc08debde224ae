"""The windowed publisher: many messages under way at once, each acknowledged, none lost silently.

A message is in one of three places: `_waiting` to be sent, `_sent` and not yet answered, or in `_retry`,
when nobody took it or it is unknown whether somebody did. The window is open while everything goes well:

```
open --- nobody answers, no answer in time, disconnected ---> recovering
  ^      (nothing new is sent; what is under way is awaited)      |
  '---- one message, the oldest, was answered: all others --------'
```

So messages go out in the order of the calls, and those to be repeated first. What can still break the order
in the stream is a leader that changes with several messages under way: some may be lost and later ones
stored. Who cannot live with that uses `max_pending=1` or an expected sequence.

Every message has an id, and is repeated under it. The stream drops duplicates of the last
`duplicate_window` seconds (2 minutes by default), far longer than a message is repeated here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

import msgspec

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import (
    ConnectionClosed,
    ConnectionDraining,
    Error,
    HeadersNotSupported,
    MaxPayloadError,
    NoResponders,
    NoStreamForSubject,
    OutboundBufferFull,
    PublishError,
    Timeout,
    UsageError,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.jetstream.publish import (
    MAX_RETRY_WAIT,
    RETRY_WAIT,
    TEMPORARY,
    nobody_answers,
    why_nobody_answers,
)
from jetspark.jetstream.publish_headers import (
    MSG_ID,
    Expectations,
    check_seconds,
    compose_headers,
    stored_before_headers,
)
from jetspark.jetstream.requests import PubAck, parse_pub_ack
from jetspark.wire import encode
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import HeadersLike, encode_headers
from jetspark.wire.subjects import check_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["MAX_BUFFERED_BYTES", "Publisher"]

#: What may wait in front of the window by default.
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
#: Bytes of frames at which they are written within the turn of the loop, so that the server can start.
_WRITE_SIZE: Final = 32 * 1024
#: Bytes that wait in the outbox at which nothing is added until it has drained; how often that is looked at.
_OUTBOX_FULL: Final = 4 * 1024 * 1024
_OUTBOX_POLL: Final = 0.005
#: How many `send` in a row before the loop turns and acknowledgements are read.
_TURN: Final = 256
_NO_RESPONDERS: Final = b"NATS/1.0 503"


class _Message(msgspec.Struct, eq=False):
    """A message without an answer."""

    number: int
    subject: str
    msg_id: str
    frame: bytes
    future: asyncio.Future[PubAck]
    #: When it fails, and when it was last sent.
    deadline: float
    sent_at: float = 0.0
    #: Whether it was sent before, with an outcome that nobody knows.
    unknown: bool = False
    #: What the stream said, while it is asked whether an earlier try was stored.
    refusal: Error | None = None


class Publisher(Receiver):
    """Publishes with up to `max_pending` messages under way. Made by `js.publisher`; a context manager.

    Leaving the context waits for all acknowledgements, and raises `PublishError` if messages failed. After an
    exception in the body it waits too, and the exception goes on; when the body is cancelled it does not
    wait.

    A message without an answer after `ack_timeout` seconds is published again, likewise after a reconnect or
    while a stream has no leader. It fails `timeout` seconds after the call that published it.
    """

    def __init__(
        self,
        api: API,
        max_pending: int = 4096,
        *,
        timeout: float = 30.0,
        ack_timeout: float = 5.0,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> None:
        connection = api.connection
        check_seconds("timeout", timeout)
        check_seconds("ack_timeout", ack_timeout)
        for option, value, least in (
            ("max_pending", max_pending, 1),
            ("max_buffered_bytes", max_buffered_bytes, 0),
        ):
            if type(value) is not int or value < least:
                raise UsageError(f"{option} must be a whole number of at least {least}, not {value!r}")
        if connection.closed:
            raise ConnectionClosed("the connection is closed")
        if not connection.server_info.headers:
            raise HeadersNotSupported("the server does not support headers: messages could have no ids")
        inbox = connection.new_inbox()
        super().__init__(connection.session.new_sid(), f"{inbox}.*".encode())
        self._api = api
        self._connection = connection
        self._outbox = connection.session.outbox
        self._loop = asyncio.get_running_loop()
        self._max_pending = max_pending
        self._timeout = timeout
        self._ack_timeout = ack_timeout
        self._max_buffered_bytes = max_buffered_bytes
        self._reply_prefix = f"{inbox}.".encode()
        self._id_prefix = secrets.token_urlsafe(9) + "-"

        self._waiting: deque[_Message] = deque()
        self._waiting_bytes = 0
        self._sent: dict[bytes, _Message] = {}
        self._retry: list[_Message] = []
        self._to_write: list[bytes] = []
        self._to_write_bytes = 0
        #: Woken, once per read, when messages were answered or the state changed.
        self._changed = Signal()
        self._timer: asyncio.TimerHandle | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._open = True
        self._connected = connection.connected
        self._ended: Error | None = None
        self._sends = 0
        #: The last number that was answered, when, and with what if nobody took it.
        self._last_answered = 0
        self._last_answer_at = 0.0
        self._answered = False
        self._failure: Error | None = None

        self._published = 0
        self._acked = 0
        self._duplicates = 0
        self._failed = 0
        self._unreported: list[Error] = []
        self._unreported_count = 0
        connection.session.add(self)
        if not self._connected:
            self._hold()

    # --- counts

    @property
    def pending(self) -> int:
        """How many messages have no outcome yet."""
        return self._published - self._acked - self._failed

    @property
    def acked(self) -> int:
        """How many messages a stream has, duplicates included."""
        return self._acked

    @property
    def duplicates(self) -> int:
        """How many of them the stream had already. Messages that were repeated here may count in."""
        return self._duplicates

    @property
    def failed(self) -> int:
        """How many messages failed."""
        return self._failed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pending} pending, {self._acked} acknowledged, {self._failed} failed>"

    # --- publishing

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        """Publish a message and return the future of its acknowledgement, which need not be awaited.

        What does not fit into the window waits here, up to `max_buffered_bytes`. A loop that publishes much
        uses `send`. Cancelling the future does not take the message back. Without a `msg_id` the message gets
        one of its own.

        Raises `UsageError` for what cannot be sent, `MaxPayloadError`, `OutboundBufferFull`,
        `ConnectionDraining` and `ConnectionClosed`; nothing was taken then.
        """
        if self._ended is not None or self._connection.draining:
            raise self._refusal()
        number = self._published + 1
        token = b"%d" % number
        if headers is None and msg_id is None and not expectations:
            msg_id = f"{self._id_prefix}{number}"
            block = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % msg_id.encode()
        else:
            msg_id, block = self._compose(number, headers, msg_id, expectations)
        if type(data) is not bytes:
            data = _as_bytes(data)
        size = len(block) + len(data)
        if size > self._connection.max_payload:
            raise MaxPayloadError(
                f"the message has {size} bytes, the server takes {self._connection.max_payload}",
                hint="Split it, or raise max_payload in the server's configuration",
            )
        frame = encode.hpub(check_subject(subject), self._reply_prefix + token, block, data)
        now = self._loop.time()
        message = _Message(
            number, subject, msg_id, frame, self._loop.create_future(), now + self._timeout, now
        )
        if self._open and not self._waiting and len(self._sent) < self._max_pending:
            self._sent[token] = message
            self._to_write.append(frame)
            self._to_write_bytes += len(frame)
            if len(self._to_write) == 1:
                self._loop.call_soon(self._write)
            elif self._to_write_bytes > _WRITE_SIZE:
                self._write()
        else:
            self._enqueue(message)
        if self._timer is None:
            self._timer = self._loop.call_later(min(self._ack_timeout, self._timeout), self._expire)
        self._published = number
        return message.future

    async def send(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        """Wait for room in the window, then `publish`; returns the future of the acknowledgement.

        A `send` that is cancelled has published nothing. Raises what `publish` raises, and `Timeout` if there
        is no room for `timeout` seconds.
        """
        self._sends += 1
        if self._sends >= _TURN:
            self._sends = 0
            await asyncio.sleep(0)
        if not self._open or self._waiting or len(self._sent) >= self._max_pending:
            await self._room()
        return self.publish(subject, data, headers=headers, msg_id=msg_id, **expectations)

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything published so far is acknowledged.

        Raises `PublishError` if messages have failed since the last time that it was said, with the first
        error as its cause, and `Timeout` after `timeout` seconds. Without one it takes as long as the last
        message may take.
        """
        if timeout is not None:
            check_seconds("timeout", timeout, least=0.0)
        last = self._published
        if not await self._until(lambda: self._oldest() > last, timeout):
            raise Timeout(f"{self.pending} messages are not acknowledged after {timeout} s")
        self._raise_unreported()

    async def close(self) -> None:
        """Flush, then release the inbox. Raises as `flush` does. Closing twice does nothing."""
        try:
            if self._ended is None:
                await self.flush()
        finally:
            self._end(UsageError("the publisher is closed"))
        self._raise_unreported()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            try:
                await self.close()
            except Error as failure:
                error.add_note(str(failure))
        else:
            self._end(UsageError("the publisher is closed"))

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Take the answers of one read."""
        start = len(self._reply_prefix)
        pop = self._sent.pop
        for frame in frames:
            token = frame.subject[start:]
            message = pop(token, None)
            if message is None:
                continue  # It was repeated, and the other try was answered.
            try:
                if frame.header and not frame.data and frame.header.startswith(_NO_RESPONDERS):
                    raise nobody_answers(message.subject, self._timeout)  # noqa: TRY301
                ack = parse_pub_ack(frame.data)
            except Error as error:
                self._refused(token, message, error)
                continue
            self._acked += 1
            if ack.duplicate:
                self._duplicates += 1
            future = message.future
            if not future.done():
                future.set_result(ack)
            self._last_answered = message.number
            self._answered = True
        self._last_answer_at = self._loop.time()
        if self._retry:
            self._hold()
        elif self._waiting:
            self._pump()
        self._changed.wake()

    def disconnected(self) -> None:
        """What is under way may or may not have arrived: it is published again when the connection is back."""
        self._connected = False
        self._drop_to_write()
        self._repeat(list(self._sent.values()))
        self._hold()
        self._changed.wake()

    def reconnected(self) -> None:
        """The inbox is subscribed again; the recovery goes on."""
        self._connected = True
        self._changed.wake()

    def publish_refused(self, subject: str, error: Error) -> None:
        """No answer will come to what was published to `subject`."""
        for token, message in list(self._sent.items()):
            if message.subject == subject:
                del self._sent[token]
                self._answered = True
                self._fail(message, error)
        self._pump()
        self._changed.wake()

    def closed(self, error: Error | None) -> None:
        """The connection is closed, or the inbox not permitted: nothing can be acknowledged any more."""
        self._end(error or ConnectionClosed("the connection was closed"))

    # --- sending

    def _compose(
        self, number: int, headers: HeadersLike | None, msg_id: str | None, expectations: Expectations
    ) -> tuple[str, bytes]:
        fields = compose_headers(headers, msg_id, expectations)
        ids = fields.setdefault(MSG_ID, [f"{self._id_prefix}{number}"])
        return ids[0], encode_headers(fields)

    def _enqueue(self, message: _Message) -> None:
        if self._waiting_bytes + len(message.frame) > self._max_buffered_bytes:
            raise OutboundBufferFull(
                f"{self._waiting_bytes} bytes wait for room in the window, {self._max_buffered_bytes} may",
                hint="Use `await send(...)`, which waits for room, or raise `max_buffered_bytes`",
            )
        self._waiting.append(message)
        self._waiting_bytes += len(message.frame)

    def _pump(self) -> None:
        """Send what waits, as far as the window goes."""
        if self._ended is not None:
            return
        now = self._loop.time()
        while self._open and self._waiting and len(self._sent) < self._max_pending:
            self._send_next(now)
            if self._to_write_bytes > _WRITE_SIZE:
                self._write()
        self._write()

    def _send_next(self, now: float) -> _Message:
        message = self._waiting.popleft()
        self._waiting_bytes -= len(message.frame)
        message.sent_at = now
        self._sent[b"%d" % message.number] = message
        self._to_write.append(message.frame)
        self._to_write_bytes += len(message.frame)
        return message

    def _write(self) -> None:
        if not self._to_write:
            return
        frames = b"".join(self._to_write)
        self._drop_to_write()
        # As frames of the session they do not outlive it: what waits in the outbox of a broken connection
        # would be sent before what is older and must be repeated.
        self._outbox.write_control(frames)
        self._outbox.flush()
        if self._outbox.size > _OUTBOX_FULL and self._open:
            self._open = False
            self._loop.call_later(_OUTBOX_POLL, self._reopen)

    def _reopen(self) -> None:
        """Go on when the outbox has drained, unless a recovery does that."""
        if self._recovery is not None or self._ended is not None:
            return
        if self._outbox.size > _OUTBOX_FULL // 2:
            self._loop.call_later(_OUTBOX_POLL, self._reopen)
            return
        self._open = True
        self._pump()
        self._changed.wake()

    def _drop_to_write(self) -> None:
        self._to_write = []
        self._to_write_bytes = 0

    # --- outcomes

    def _refused(self, token: bytes, message: _Message, error: Error) -> None:
        """Nobody took the message, or the stream did not want it."""
        if isinstance(error, TEMPORARY):
            self._failure = error
            self._retry.append(message)
            return
        self._answered = True
        if message.refusal is not None:
            error = message.refusal if isinstance(error, WrongLastMsgId) else error
        elif message.unknown and isinstance(error, WrongLastSequence):
            message.refusal = error
            self._ask_whether_stored(token, message)
            return
        self._fail(message, error)

    def _ask_whether_stored(self, token: bytes, message: _Message) -> None:
        """An earlier try may have been stored, and this one refused because of that."""
        block = encode_headers(stored_before_headers(message.msg_id))
        message.frame = encode.hpub(check_subject(message.subject), self._reply_prefix + token, block, b"")
        message.sent_at = self._loop.time()
        self._sent[token] = message
        self._to_write.append(message.frame)
        self._loop.call_soon(self._write)

    def _repeat(self, messages: list[_Message]) -> None:
        """Take back what is under way: whether it arrived is unknown."""
        for message in messages:
            del self._sent[b"%d" % message.number]
            message.unknown = True
            self._retry.append(message)

    def _fail(self, message: _Message, error: Error) -> None:
        self._failed += 1
        self._unreported_count += 1
        if not self._unreported:
            self._unreported.append(error)
        if not message.future.done():
            message.future.set_exception(error)
            message.future.exception()  # `flush` tells about it, also when nobody awaits the future.

    def _raise_unreported(self) -> None:
        if not self._unreported:
            return
        first, count = self._unreported.pop(), self._unreported_count
        self._unreported_count = 0
        what = "a message was" if count == 1 else f"{count} messages were"
        raise PublishError(
            f"{what} not acknowledged; {'it' if count == 1 else 'the first'} failed with: {first.args[0]}",
            failed=count,
            hint=first.hint,
        ) from first

    def _expire(self) -> None:
        """Fail what is too old, and take back what was not answered in time."""
        self._timer = None
        now = self._loop.time()
        # While others are answered, the server is slow and has lost only what is older than those.
        silent = now - self._last_answer_at >= self._ack_timeout
        lost = []
        for message in list(self._sent.values()):
            if message.deadline <= now:
                del self._sent[b"%d" % message.number]
                self._fail(message, self._too_late(message))
            elif message.sent_at + self._ack_timeout > now:
                break
            elif silent or message.number < self._last_answered:
                lost.append(message)
        self._repeat(lost)
        while self._waiting and self._waiting[0].deadline <= now:
            message = self._waiting.popleft()
            self._waiting_bytes -= len(message.frame)
            self._fail(message, self._too_late(message))
        if lost:
            self._hold()
        self._pump()
        self._changed.wake()
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        when = []
        if self._sent:
            oldest = next(iter(self._sent.values()))
            when += [oldest.deadline, max(oldest.sent_at + self._ack_timeout, now + self._ack_timeout / 4)]
        if self._waiting:
            when.append(self._waiting[0].deadline)
        if self._retry:
            when.append(now + self._ack_timeout / 4)
        if when:
            self._timer = self._loop.call_at(min(when), self._expire)

    def _too_late(self, message: _Message) -> Error:
        return Timeout(
            f"no acknowledgement of the message on {message.subject!r} within {self._timeout} s",
            hint=f"Whether it is stored is unknown; its id is {message.msg_id!r}",
        )

    # --- recovery

    def _hold(self) -> None:
        """Send nothing new until it is known that somebody answers."""
        if self._recovery is None and self._ended is None:
            self._open = False
            self._write()
            self._recovery = self._loop.create_task(self._recover(), name="jetspark-publisher")

    async def _recover(self) -> None:
        wait = RETRY_WAIT
        while True:
            await self._until(lambda: self._connected and not self._sent)
            self._requeue()
            if not self._waiting:
                break
            self._answered, self._failure = False, None
            probe = self._send_next(self._loop.time())
            self._write()
            await self._until(lambda: not self._sent)
            if self._answered:
                break
            if self._failure is None:
                continue  # It was not answered at all, or the connection broke.
            if isinstance(self._failure, NoResponders):
                reason = await why_nobody_answers(self._api, probe.subject)
                if reason is not None:
                    everything = not isinstance(reason, NoStreamForSubject)
                    self._give_up(lambda message: everything or message.subject == probe.subject, reason)
                    continue
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_RETRY_WAIT)
        self._recovery = None
        self._open = True
        self._pump()
        self._changed.wake()

    def _requeue(self) -> None:
        """Put what is to be repeated before everything that was not sent yet."""
        self._retry.sort(key=lambda message: message.number, reverse=True)
        self._waiting.extendleft(self._retry)
        self._waiting_bytes += sum(len(message.frame) for message in self._retry)
        self._retry = []

    def _give_up(self, concerned: Callable[[_Message], bool], error: Error) -> None:
        self._requeue()
        messages, self._waiting = self._waiting, deque()
        self._waiting_bytes = 0
        for message in messages:
            if concerned(message):
                self._fail(message, error)
            else:
                self._waiting.append(message)
                self._waiting_bytes += len(message.frame)
        self._changed.wake()

    # --- waiting and ending

    async def _until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` holds: True, or False after `timeout` seconds."""
        deadline = None if timeout is None else self._loop.time() + timeout
        while not condition():
            remaining = None if deadline is None else deadline - self._loop.time()
            if not await self._changed.wait(remaining):
                return condition()
        return True

    async def _room(self) -> None:
        def ready() -> bool:
            if self._ended is not None:
                return True
            return self._open and not self._waiting and len(self._sent) < self._max_pending

        if not await self._until(ready, self._timeout):
            raise Timeout(
                f"no room in the window of {self._max_pending} messages within {self._timeout} s",
                hint="The server does not acknowledge, or the connection is down",
            )

    def _oldest(self) -> int:
        """The number of the oldest message without an outcome; the next one if there is none."""
        numbers = [message.number for message in self._retry]
        if self._sent:
            numbers.append(next(iter(self._sent.values())).number)
        if self._waiting:
            numbers.append(self._waiting[0].number)
        return min(numbers, default=self._published + 1)

    def _refusal(self) -> Error:
        ended = self._ended
        if ended is None:
            return ConnectionDraining("the connection is draining")
        if isinstance(ended, UsageError):
            return UsageError("the publisher is closed")
        error = ConnectionClosed("the connection is closed")
        error.__cause__ = ended
        return error

    def _end(self, error: Error) -> None:
        """Release the inbox; whatever has no outcome fails with `error`."""
        if self._ended is not None:
            return
        self._ended = error
        self._open = False
        self._connection.session.unsubscribe(self)
        self._connection.session.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._recovery is not None:
            self._recovery.cancel()
        self._drop_to_write()
        unanswered = [*self._sent.values(), *self._retry, *self._waiting]
        self._sent, self._retry, self._waiting, self._waiting_bytes = {}, [], deque(), 0
        for message in sorted(unanswered, key=lambda message: message.number):
            self._fail(message, self._abandoned(error, message))
        self._changed.wake()

    def _abandoned(self, error: Error, message: _Message) -> Error:
        if isinstance(error, UsageError):
            return ConnectionClosed(
                f"the publisher was closed before the message on {message.subject!r} was acknowledged"
            )
        return error


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise UsageError(f"data must be bytes, not {type(data).__name__}", hint="Encode it: text.encode()")
