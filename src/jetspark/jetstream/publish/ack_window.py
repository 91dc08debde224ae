"""The messages of a publisher that are not settled yet, and the state of each. Pure: no I/O, no clock.

A message is `waiting` to be sent; `sent` and not answered; or in `retry`, when no server took it or it is
unknown whether the stream stored it. The first two are in the order in which the messages were published, and
everything in `waiting` is newer than the rest. Times are those of the event loop; the caller passes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Protocol

import msgspec

from jetspark.errors import Error, OutboundBufferFull
from jetspark.jetstream.model.requests import PubAck

__all__ = ["AckFuture", "AckWindow", "Message"]

_number = attrgetter("number")


class AckFuture(Protocol):
    """The future of an acknowledgement, of asyncio or of a thread."""

    def done(self) -> bool: ...

    def set_result(self, result: PubAck, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class Message(msgspec.Struct, eq=False, gc=False):
    """A message that is not settled. It is in no reference cycle, so the garbage collector skips it."""

    number: int
    subject: str
    #: None for a generated id, which follows from the number.
    msg_id: str | None
    frame: bytes
    #: None if no caller has it.
    future: AckFuture | None
    #: When it fails.
    deadline: float
    #: When it was last sent.
    sent_at: float
    #: Whether an earlier attempt may have been stored.
    unknown: bool = False
    #: Why the stream refused it, while the stream is asked whether it stored an earlier attempt.
    refusal: Error | None = None

    @property
    def size(self) -> int:
        """Bytes of headers and payload, which `max_payload` limits."""
        return int(self.frame[: self.frame.index(b"\r\n")].rpartition(b" ")[2])


class AckWindow:
    """Up to `max_pending` messages are in flight, and up to `max_buffered_bytes` of others wait."""

    __slots__ = (
        "ack_timeout",
        "max_buffered_bytes",
        "max_pending",
        "retry",
        "sent",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, max_pending: int, max_buffered_bytes: int, ack_timeout: float) -> None:
        self.max_pending = max_pending
        self.max_buffered_bytes = max_buffered_bytes
        self.ack_timeout = ack_timeout
        self.waiting: deque[Message] = deque()
        self.waiting_bytes = 0
        #: By number, which ends the reply subject too.
        self.sent: dict[int, Message] = {}
        self.retry: list[Message] = []

    @property
    def has_room(self) -> bool:
        """Whether a new message could be sent at once."""
        return not self.waiting and len(self.sent) < self.max_pending

    @property
    def can_send(self) -> bool:
        """Whether a waiting message can be sent."""
        return bool(self.waiting) and len(self.sent) < self.max_pending

    def oldest(self) -> int | None:
        """The number of the oldest message; None when the window is empty."""
        fronts = [next(iter(self.sent.values()))] if self.sent else []
        if self.waiting:
            fronts.append(self.waiting[0])
        return min(map(_number, [*fronts, *self.retry]), default=None)

    def enqueue(self, message: Message) -> None:
        """Add a new message to those that wait. Raises `OutboundBufferFull`."""
        if self.waiting_bytes + len(message.frame) > self.max_buffered_bytes:
            raise OutboundBufferFull(
                f"{self.waiting_bytes} bytes wait for the ack window, limit {self.max_buffered_bytes}",
                hint="Use `await send(...)`, which waits for room, or raise `max_buffered_bytes`",
            )
        self.waiting.append(message)
        self.waiting_bytes += len(message.frame)

    def take(self, now: float) -> Message:
        """Take the next waiting message, to send it now."""
        message = self.waiting.popleft()
        self.waiting_bytes -= len(message.frame)
        message.sent_at = now
        self.sent[message.number] = message
        return message

    def take_many(self, now: float, size: int) -> list[bytes]:
        """The frames of the next waiting messages, to send them now: `size` bytes or a little more."""
        waiting, sent = self.waiting, self.sent
        frames: list[bytes] = []
        taken = 0
        for _ in range(min(len(waiting), self.max_pending - len(sent))):
            message = waiting.popleft()
            message.sent_at = now
            sent[message.number] = message
            frames.append(message.frame)
            taken += len(message.frame)
            if taken > size:
                break
        self.waiting_bytes -= taken
        return frames

    def send_again(self, messages: Iterable[Message]) -> None:
        """Put answered messages back: they were sent again, as a question."""
        everything = sorted([*self.sent.values(), *messages], key=_number)
        self.sent = {message.number: message for message in everything}

    def lose(self, messages: Iterable[Message]) -> None:
        """Move sent messages to `retry`: it is unknown whether the stream stored them."""
        for message in messages:
            del self.sent[message.number]
            message.unknown = True
            self.retry.append(message)

    def requeue(self) -> None:
        """Put the messages in `retry` in front of those that wait."""
        self.retry.sort(key=_number, reverse=True)
        self.waiting.extendleft(self.retry)
        self.waiting_bytes += sum(len(message.frame) for message in self.retry)
        self.retry = []

    def expire(self, now: float, *, answered_at: float, answered: int) -> tuple[list[Message], list[Message]]:
        """Remove messages past their deadline, and `lose` those not answered in time; returns both.

        The server last answered at `answered_at`, message number `answered`. While it answers it is only
        slow: then only messages older than that one are lost.
        """
        silent = answered_at + self.ack_timeout <= now
        late, lost = [], []
        for message in self.sent.values():
            if message.deadline <= now:
                late.append(message)
            elif message.sent_at + self.ack_timeout > now:
                break
            elif silent or message.number < answered:
                lost.append(message)
        for message in late:
            del self.sent[message.number]
        self.lose(lost)
        late += [message for message in self.retry if message.deadline <= now]
        self.retry = [message for message in self.retry if message.deadline > now]
        while self.waiting and self.waiting[0].deadline <= now:
            late.append(self.waiting.popleft())
            self.waiting_bytes -= len(late[-1].frame)
        return late, lost

    def next_check(self, now: float) -> float | None:
        """When to call `expire` again; None when the window is empty."""
        soon = now + self.ack_timeout / 4
        # A waiting message may be sent at any moment, and stay unanswered.
        times = [soon] if self.retry or self.waiting else []
        if self.sent:
            first = next(iter(self.sent.values()))
            times += [first.deadline, max(first.sent_at + self.ack_timeout, soon)]
        if self.waiting:
            times.append(self.waiting[0].deadline)
        return min(times, default=None)

    def remove(self, concerned: Callable[[Message], bool]) -> list[Message]:
        """Remove and return the messages that are not in flight and `concerned`."""
        removed = [message for message in (*self.retry, *self.waiting) if concerned(message)]
        if removed:
            self.retry = [message for message in self.retry if not concerned(message)]
            self.waiting = deque(message for message in self.waiting if not concerned(message))
            self.waiting_bytes = sum(len(message.frame) for message in self.waiting)
        return sorted(removed, key=_number)

    def clear(self) -> list[Message]:
        """Remove and return everything."""
        everything = sorted([*self.sent.values(), *self.retry, *self.waiting], key=_number)
        self.sent, self.retry, self.waiting, self.waiting_bytes = {}, [], deque(), 0
        return everything
