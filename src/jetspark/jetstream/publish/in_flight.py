"""The messages that a publisher has in flight: sends them, repeats them, settles their futures.

```
open ---- no leader, no answer in time, disconnected -----> recovering
  ^   (nothing new is sent; what is in flight is awaited)       |
  '---- the oldest message was answered: send all others -------'
```

So messages are sent in the order in which they were published, and those to be repeated first. Nothing is
written while the connection is down.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark import errors
from jetspark.core.headers import header_block
from jetspark.core.message import too_large
from jetspark.core.receiver import Receiver
from jetspark.core.request import no_responders
from jetspark.core.signal import Signal
from jetspark.jetstream.model.requests import parse_pub_ack
from jetspark.jetstream.publish.ack_window import AckFuture, AckWindow, Message
from jetspark.jetstream.publish.attempts import (
    find_permanent_reason,
    is_temporary_refusal,
    no_acknowledgement,
    no_leader,
)
from jetspark.jetstream.publish.headers import stored_before_headers
from jetspark.jetstream.retry import Backoff
from jetspark.wire import MsgFrame, hpub, pub_acks
from jetspark.wire.subjects import encode_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["InFlight"]

#: Bytes of frames that are written before the turn of the loop ends, so that the server can start.
_WRITE_SIZE: Final = 32 * 1024
#: Bytes in the outbox at which sending stops until it has drained, and seconds between looks at it.
_OUTBOX_FULL: Final = 4 * 1024 * 1024
_OUTBOX_POLL: Final = 0.005


class InFlight(Receiver):
    """The receiver of a publisher's acknowledgements."""

    def __init__(self, api: API, window: AckWindow, *, timeout: float) -> None:
        connection = api.connection
        inbox = connection.new_inbox()
        super().__init__(connection.session.new_sid(), f"{inbox}.*".encode())
        self._api = api
        self._session = connection.session
        self._outbox = connection.session.outbox
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._to_write: list[bytes] = []
        self._to_write_bytes = 0
        self._now = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._connected = connection.connected
        self._recovery: asyncio.Task[None] | None = None
        #: The number of the message that a stream answered last, and when.
        self._answered = 0
        self._answered_at = 0.0
        #: Why a message was last refused temporarily.
        self._obstacle: errors.Error | None = None
        #: The last answer that no stream sent.
        self._stray = b""
        #: How many failures were not raised by `raise_failures` yet, and the first of them.
        self._unreported = 0
        self._first_failure: errors.Error | None = None
        #: The number of the message that failed first among those; 0 without any.
        self.first_failed = 0
        #: The lowest number of all failed messages; 0 without any.
        self.lowest_failed = 0
        #: Woken, once per read, when messages were answered or the state changed.
        self._changed = Signal()

        self.window = window
        #: The reply subject of acknowledgements without the number of the message, which follows it.
        self.reply_prefix = f"{inbox}.".encode()
        #: Generated message ids without the number of the message, which follows it.
        self.id_prefix = f"{secrets.token_urlsafe(9)}-"
        #: Whether a write is scheduled, and the `max_payload` of the server when it was.
        self.scheduled = False
        self.max_payload = 0
        #: Whether new messages are sent.
        self.open = True
        #: Why no message is accepted any more.
        self.ended: errors.Error | None = None
        self.published = 0
        self.acked = 0
        self.duplicates = 0
        self.failed = 0
        self._session.add(self)
        if not self._connected:
            self._hold()

    # --- for the publisher

    def add(self, subject: str, msg_id: str | None, frame: bytes, future: AckFuture | None) -> Message:
        """Take message number `published + 1`, which is in its frame. Raises `OutboundBufferFull`."""
        if not self.scheduled:
            self.schedule()
        now = self._now
        number = self.published + 1
        message = Message(number, subject, msg_id, frame, future, now + self._timeout, now)
        window = self.window
        if self.open and not window.waiting and len(window.sent) < window.max_pending:
            window.sent[number] = message
            self._to_write.append(frame)
            self._to_write_bytes += len(frame)
            if self._to_write_bytes > _WRITE_SIZE:
                self._write()
        else:
            window.enqueue(message)
        self.published = number
        if self._timer is None:
            self._timer = self._loop.call_later(min(window.ack_timeout, self._timeout), self._expire)
        return message

    def schedule(self) -> None:
        """Write when this turn of the loop ends. Until then, the time and `max_payload` are those of now."""
        self.scheduled = True
        self._now = self._loop.time()
        self.max_payload = self._api.connection.max_payload
        self._loop.call_soon(self._write)

    def reject(self, subject: str, future: AckFuture | None, error: errors.Error) -> None:
        """Fail message number `published + 1`, which another thread accepted and which cannot be sent."""
        self.published += 1
        self._fail(Message(self.published, subject, None, b"", future, 0.0, 0.0), error)

    async def until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` holds: True, or False after `timeout` seconds."""
        deadline = None if timeout is None else self._loop.time() + timeout
        while not condition():
            remaining = None if deadline is None else deadline - self._loop.time()
            if not await self._changed.wait(remaining):
                return condition()
        return True

    def raise_failures(self) -> None:
        """Raise `PublishError` if messages have failed since the last call."""
        first, self._first_failure = self._first_failure, None
        count, self._unreported = self._unreported, 0
        number, self.first_failed = self.first_failed, 0
        if first is not None:
            what = "1 message was" if count == 1 else f"{count} messages were"
            raise errors.PublishError(
                f"{what} not acknowledged, the first because: {first.args[0]}",
                failed=count,
                first=number,
                hint=first.hint,
            ) from first

    def end(self, error: errors.Error | None) -> None:
        """Release the inbox and fail all unsettled messages with `error`; None when the user closes."""
        if self.ended is not None:
            return
        self.ended = error or errors.ConnectionClosed("the publisher is closed")
        self.open = False
        self._session.unsubscribe(self)
        self._session.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._recovery is not None:
            self._recovery.cancel()
        self._to_write, self._to_write_bytes = [], 0
        for message in self.window.clear():
            text = f"the publisher was closed before the message on {message.subject!r} was acknowledged"
            self._fail(message, error or errors.ConnectionClosed(text))
        tally = self._session.tally
        tally.published += self.published
        tally.publish_acks += self.acked
        tally.publish_failures += self.failed
        self._changed.wake()

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Handle the answers of one read."""
        start = len(self.reply_prefix)
        sent = self.window.sent
        pop = sent.pop
        acked = strays = 0
        asked = []
        # The numbers of plain acknowledgements are found for all frames at once. An acknowledgement itself is
        # parsed only for a future.
        for frame, plain in zip(frames, pub_acks(frames, start), strict=True):
            message = pop(plain, None) if plain else sent.get(_number(frame.subject[start:]))
            if message is None:
                continue  # It was repeated, and another attempt was answered before.
            future = message.future
            if not plain or (future is not None and not future.done()):
                try:
                    ack = parse_pub_ack(frame.data)
                except errors.Error as error:
                    unanswered = no_responders(frame, message.subject) is not None
                    if isinstance(error, errors.RemoteProtocolError) and not unanswered:
                        # Another subscriber of the subject sent this. The stream is yet to answer.
                        self._stray = frame.data[:80]
                        strays += 1
                        continue
                    pop(message.number, None)
                    refusal = no_leader(message.subject, self._timeout) if unanswered else error
                    if self._refused(message, refusal):
                        asked.append(message)
                    continue
                if not plain:
                    pop(message.number, None)
                if ack.duplicate:
                    self.duplicates += 1
                if future is not None and not future.done():
                    future.set_result(ack)
            acked += 1
            self._answered = message.number
        if strays == len(frames):
            return
        self.acked += acked
        self._answered_at = self._loop.time()
        if asked:
            self.window.send_again(asked)
        if self.window.retry:
            self._hold()
        elif self.window.waiting:
            self._pump()
        self._changed.wake()

    def disconnected(self) -> None:
        """Messages in flight may have arrived or not: they are published again after the reconnect."""
        self._connected = False
        self._to_write, self._to_write_bytes = [], 0
        self.window.lose(list(self.window.sent.values()))
        self._hold()
        self._changed.wake()

    def reconnected(self) -> None:
        """The inbox is subscribed again: continue the recovery."""
        self._connected = True
        self._changed.wake()

    def publish_refused(self, subject: str, error: errors.Error) -> None:
        """Messages to `subject` will get no answer: fail them."""
        sent = self.window.sent
        for number in [number for number, message in sent.items() if message.subject == subject]:
            message = sent.pop(number)
            self._answered = number
            self._fail(message, error)
        self._pump()
        self._changed.wake()

    def closed(self, error: errors.Error | None) -> None:
        """The connection is closed, or the inbox is not permitted: no acknowledgement can arrive."""
        self.end(error or errors.ConnectionClosed("the connection was closed"))

    # --- sending

    def _pump(self) -> None:
        """Send waiting messages while the ack window has room."""
        now = self._loop.time()
        while self.open and self.window.can_send:
            frames = self.window.take_many(now, _WRITE_SIZE)
            self._to_write += frames
            self._to_write_bytes += sum(map(len, frames))
            self._write_much()

    def _write_soon(self, frame: bytes) -> None:
        """Write within this turn of the loop, all frames at once."""
        self._to_write.append(frame)
        self._to_write_bytes += len(frame)
        self._write_much()

    def _write_much(self) -> None:
        """Write now if there is much to write, else when this turn of the loop ends."""
        if self._to_write_bytes > _WRITE_SIZE:
            self._write()
        elif not self.scheduled:
            self.schedule()

    def _write(self) -> None:
        self.scheduled = False
        if not self._to_write:
            return
        frames = b"".join(self._to_write)
        self._to_write, self._to_write_bytes = [], 0
        # Written as frames of the session, which a disconnect drops: frames left in the outbox would be sent
        # before older messages that must be repeated.
        self._outbox.write_control(frames)
        self._outbox.flush()
        if self._outbox.size > _OUTBOX_FULL and self.open:
            self.open = False
            self._loop.call_later(_OUTBOX_POLL, self._reopen)

    def _reopen(self) -> None:
        """Continue when the outbox has drained, unless a recovery runs, which does that."""
        if self._recovery is not None or self.ended is not None:
            return
        if self._outbox.size > _OUTBOX_FULL // 2:
            self._loop.call_later(_OUTBOX_POLL, self._reopen)
        else:
            self._resume()

    def _resume(self) -> None:
        self.open = True
        self._pump()
        self._changed.wake()

    # --- outcomes

    def _refused(self, message: Message, error: errors.Error) -> bool:
        """Handle a refusal. True if the message is still in flight, as a question."""
        if is_temporary_refusal(error):
            self._obstacle = error
            self.window.retry.append(message)
            return False
        self._answered = message.number
        if message.refusal is None and message.unknown and isinstance(error, errors.WrongLastSequence):
            # An earlier attempt may have been stored, and this one refused because of that.
            message.refusal = error.with_traceback(None)  # A traceback would refer to the message.
            self._ask_whether_stored(message)
            return True
        if message.refusal is not None and isinstance(error, errors.WrongLastSequence):
            if not isinstance(error, errors.WrongLastMsgId):
                return True  # An earlier attempt was refused late: the answer to the question is yet to come.
            error = message.refusal
        self._fail(message, error)
        return False

    def _ask_whether_stored(self, message: Message) -> None:
        reply = b"%b%d" % (self.reply_prefix, message.number)
        block = header_block(stored_before_headers(self._id_of(message)))
        message.frame = hpub(encode_subject(message.subject), reply, block, b"")
        message.sent_at = self._loop.time()
        self._write_soon(message.frame)

    def _id_of(self, message: Message) -> str:
        return message.msg_id or f"{self.id_prefix}{message.number}"

    def _fail(self, message: Message, error: errors.Error) -> None:
        error = error.with_traceback(None)  # A traceback would keep the whole read alive.
        self.failed += 1
        self._unreported += 1
        self._first_failure = self._first_failure or error
        self.first_failed = self.first_failed or message.number
        self.lowest_failed = min(self.lowest_failed or message.number, message.number)
        future = message.future
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # Marks it as seen: `flush` raises it if the future is not awaited.

    def _expire(self) -> None:
        """Fail messages past their deadline, and repeat those not answered in time."""
        now = self._loop.time()
        late, lost = self.window.expire(now, answered_at=self._answered_at, answered=self._answered)
        for message in late:
            hint = f"its id is {self._id_of(message)!r}"
            self._fail(message, no_acknowledgement(message.subject, self._timeout, hint, self._stray))
        if lost:
            self._hold()
        self._pump()
        self._changed.wake()
        when = self.window.next_check(now)
        self._timer = None if when is None else self._loop.call_at(when, self._expire)

    # --- recovery

    def _hold(self) -> None:
        """Send nothing new until a stream answers again."""
        if self._recovery is None and self.ended is None:
            self.open = False
            self._recovery = self._loop.create_task(self._recover(), name="jetspark-publisher")

    async def _recover(self) -> None:
        """Wait for the messages in flight, then send the oldest alone until it is answered."""
        window = self.window
        backoff = Backoff()
        while True:
            await self.until(lambda: self._connected and not window.sent)
            window.requeue()
            self._drop_too_large()
            if not window.waiting:
                break
            self._answered, self._obstacle = 0, None
            probe = window.take(self._loop.time())
            self._write_soon(probe.frame)
            await self.until(lambda: not window.sent)
            # It may be answered and still be tried again, as a question.
            if self._answered and self._connected and not window.retry:
                break
            if self._obstacle is None:
                continue  # No answer at all, or the connection broke.
            if isinstance(self._obstacle, errors.NoResponders):
                reason = await find_permanent_reason(self._api, probe.subject)
                if reason is not None:
                    self._give_up(probe.subject, reason)
                    continue
            await backoff.pause()
        self._recovery = None
        self._resume()

    def _drop_too_large(self) -> None:
        """Fail messages over the limit of this server, which may be lower than that of the one before."""
        max_payload = self._api.connection.max_payload
        for message in self.window.remove(lambda message: message.size > max_payload):
            self._fail(message, too_large(message.size, max_payload))

    def _give_up(self, subject: str, reason: errors.Error) -> None:
        """Fail the messages to `subject`, or all of them if the reason concerns all."""
        everything = not isinstance(reason, errors.NoStreamForSubject)
        for message in self.window.remove(lambda message: everything or message.subject == subject):
            self._fail(message, reason)
        self._changed.wake()


def _number(token: bytes) -> int:
    """The number of a message in the subject of an answer; 0, which no message has, for anything else."""
    return int(token) if token.isdigit() and len(token) <= 18 else 0
