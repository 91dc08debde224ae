"""The session: dispatches messages to receivers, and checks that the server still answers.

It outlives the transports. `attach` continues on a new transport with the same receivers and outbox;
`detach` keeps both for the next one. The link (`link.py`) decides when; this file knows neither servers nor
states.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from jetspark.core.outbox import Outbox
from jetspark.core.receiver import Receiver
from jetspark.core.tally import Tally
from jetspark.core.transport import Transport
from jetspark.errors import ConnectionLost, Error, StaleConnection, Timeout
from jetspark.wire import (
    AnyFrame,
    ErrFrame,
    InfoFrame,
    MsgFrame,
    OkFrame,
    PingFrame,
    PongFrame,
    by_subscription,
    encode,
)

__all__ = ["Session"]

#: How many times as many PINGs may be unanswered while other data arrives: a PONG may wait behind much of it.
_BEHIND_DATA: Final = 5


class Session:
    """Everything between the transport and the receivers."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        ping_interval: float,
        max_outstanding_pings: int,
        on_info: Callable[[InfoFrame], None],
        on_err: Callable[[ErrFrame], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ping_interval = ping_interval
        self._max_outstanding_pings = max_outstanding_pings
        self._on_info = on_info
        self._on_err = on_err
        self._on_failure = on_failure
        self._sids = itertools.count(1)
        self._receivers: dict[bytes, Receiver] = {}
        #: One entry per unanswered PING: the future that waits for it, or None for a PING of the timer.
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._outstanding_pings = 0
        # How many times in a row nothing was received from one PING to the next.
        self._silent_pings = 0
        self._bytes_at_ping = 0
        self._ping_timer: asyncio.TimerHandle | None = None
        self._bytes_received = 0
        self._bytes_sent = 0
        self.messages_received = 0
        self.tally = Tally()
        self.outbox = outbox
        #: Seconds that closing the connection waits for queued messages to be written.
        self.close_timeout = 2.0
        #: The transport in use, if any.
        self.transport: Transport | None = None

    # --- transports

    @property
    def attached(self) -> bool:
        """Whether there is a transport."""
        return self.transport is not None

    def attach(
        self, transport: Transport, on_lost: Callable[[Exception | None], None], *, reconnected: bool
    ) -> None:
        """Continue on `transport`: restore the subscriptions, then write the waiting frames."""
        self.transport = transport
        restored = b"".join(map(_subscribe, self.receivers))
        if restored:
            transport.write(restored)
        transport.on_writable = self.outbox.flush
        self.outbox.attach(transport)
        self._ping_timer = self._loop.call_later(self._ping_interval, self._ping)
        transport.start(self.receive, on_lost)
        if reconnected:
            for receiver in self.receivers:
                receiver.reconnected()

    def detach(self, error: Error | None = None) -> None:
        """Drop the transport. Flushes fail, with `error` if given; the rest waits for the next transport."""
        if self.transport is not None:
            self._bytes_received += self.transport.bytes_received
            self._bytes_sent += self.transport.bytes_sent
            self.transport = None
        self.outbox.detach()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._outstanding_pings = self._silent_pings = self._bytes_at_ping = 0
        pongs, self._pongs = self._pongs, deque()
        for waiter in pongs:
            if waiter is not None and not waiter.done():
                waiter.set_exception(error or ConnectionLost("the connection broke during a flush"))
        for receiver in self.receivers:
            receiver.disconnected()

    def close(self, error: Error, *, failed: bool) -> None:
        """Close everything. If it `failed`, receivers raise `error` after their buffered messages."""
        receivers, self._receivers = self._receivers, {}
        self.detach(error)
        self.outbox.close(error)
        for receiver in receivers.values():
            receiver.closed(error if failed else None)

    @property
    def bytes_received(self) -> int:
        return self._bytes_received + (self.transport.bytes_received if self.transport else 0)

    @property
    def bytes_sent(self) -> int:
        return self._bytes_sent + (self.transport.bytes_sent if self.transport else 0)

    # --- receivers

    @property
    def receivers(self) -> list[Receiver]:
        """All receivers."""
        return list(self._receivers.values())

    def new_sid(self) -> bytes:
        """A subscription id that this session never used."""
        return b"%d" % next(self._sids)

    def add(self, receiver: Receiver) -> None:
        """Subscribe. The receiver is restored after every reconnect until it is removed."""
        self._receivers[receiver.sid] = receiver
        if self.transport is not None:
            self.outbox.write_control(_subscribe(receiver))

    def forget(self, receiver: Receiver) -> None:
        """Remove a receiver without an UNSUB: the server has got one, or has ended the subscription."""
        self._receivers.pop(receiver.sid, None)

    def unsubscribe(self, receiver: Receiver) -> None:
        """Send an UNSUB. Messages in flight still arrive until the receiver is forgotten."""
        if self.transport is not None and receiver.sid in self._receivers:
            self.outbox.write_control(encode.unsub(receiver.sid))

    def refuse(self, verb: str, subject: str, error: Error) -> None:
        """Report that the server does not permit a `publish` or a `subscription` to a subject."""
        for receiver in self.receivers:
            if verb == "publish":
                receiver.publish_refused(subject, error)
            elif receiver.subject_filter.decode("utf-8", "surrogateescape") == subject:
                self.forget(receiver)
                receiver.closed(error)

    # --- frames

    def receive(self, frames: list[AnyFrame]) -> None:
        """Dispatch the frames of one read: each receiver is called once with all of its messages.

        Whatever one of them raises is reported, and concerns neither the others nor the connection.
        """
        for sid, group in by_subscription(frames):
            if sid is None:
                for frame in group:
                    try:
                        self._control(frame)
                    except Exception as error:
                        self._on_failure(error)
                continue
            messages = cast("list[MsgFrame]", group)
            self.messages_received += len(messages)
            receiver = self._receivers.get(sid)
            if receiver is not None:
                try:
                    receiver.deliver(messages)
                except Exception as error:
                    self._on_failure(error)

    def _control(self, frame: AnyFrame) -> None:
        match frame:
            case PingFrame():
                self.outbox.answer_ping()
            case PongFrame():
                self._outstanding_pings = 0
                if self._pongs and (waiter := self._pongs.popleft()) is not None and not waiter.done():
                    waiter.set_result(None)
            case InfoFrame():
                self._on_info(frame)
            case ErrFrame():
                self._on_err(frame)
            case OkFrame():
                pass

    # --- pings

    def _ping(self) -> None:
        """Send a PING, whatever the traffic: so a dead peer is found even while the client only writes."""
        if self.transport is None:
            return
        received = self.transport.bytes_received
        self._silent_pings = self._silent_pings + 1 if received == self._bytes_at_ping else 0
        self._bytes_at_ping = received
        allowed = self._max_outstanding_pings
        if self._silent_pings < allowed:
            allowed *= _BEHIND_DATA
        if self._outstanding_pings >= allowed:
            self.transport.fail(
                StaleConnection(
                    f"{self._outstanding_pings} pings, {self._ping_interval} s apart, were not answered"
                )
            )
            return
        self._outstanding_pings += 1
        self._pongs.append(None)
        self.outbox.write_control(encode.PING)
        self._ping_timer = self._loop.call_later(self._ping_interval, self._ping)

    async def flush(self, timeout: float) -> None:
        """Return when the server has processed everything written before.

        Raises `Timeout`, and `ConnectionLost` when the connection breaks meanwhile.
        """
        self.outbox.write_control(encode.PING)
        await self._pong(timeout)

    async def leave(self, timeout: float) -> None:
        """Stop writing, and return when the server has processed everything written before.

        Messages published meanwhile wait for the next transport. Raises as `flush` does.
        """
        deadline = self._loop.time() + timeout
        transport = self.transport
        while True:
            await self.flush(deadline - self._loop.time())
            if transport is None or transport is not self.transport:
                raise ConnectionLost("the connection broke before the move to another server")
            self.outbox.flush()
            if not self.outbox.size:
                break
        self.outbox.detach()
        transport.write(encode.PING)
        await self._pong(deadline - self._loop.time())

    async def _pong(self, timeout: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(waiter)
        timer = self._loop.call_later(max(timeout, 0.0), _expire, waiter, timeout)
        try:
            await waiter
        finally:
            timer.cancel()


def _subscribe(receiver: Receiver) -> bytes:
    frame = encode.sub(receiver.subject_filter, receiver.queue_group, receiver.sid)
    remaining = receiver.remaining()
    return frame if remaining is None else frame + encode.unsub(receiver.sid, remaining)


def _expire(waiter: asyncio.Future[None], timeout: float) -> None:
    if not waiter.done():
        waiter.set_exception(Timeout(f"the server did not confirm a flush within {timeout:.3g} s"))
