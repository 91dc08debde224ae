"""Requests: one wildcard inbox for all, and for each a token and the future of its answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

from jetspark.core.message import Msg
from jetspark.core.receiver import Receiver
from jetspark.errors import ConnectionClosed, ConnectionLost, Error, NoResponders, NotSent, Timeout
from jetspark.wire import MsgFrame
from jetspark.wire.headers import NO_RESPONDERS

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Accepts", "Requests", "no_responders", "not_sent"]

#: Whether the payload is an answer to the request.
Accepts: TypeAlias = Callable[[bytes], bool]


class Requests(Receiver):
    """The receiver of all answers. Subscribed when the first request is made."""

    def __init__(self, connection: Connection, sid: bytes, prefix: bytes) -> None:
        super().__init__(sid, prefix + b"*")
        self._prefix = prefix
        self._connection = connection
        self._tokens = itertools.count(1)
        self._waiting: dict[bytes, tuple[str, asyncio.Future[Msg], Accepts | None]] = {}
        #: Whether no more answers can arrive: the inbox is not permitted, or the connection closed.
        self.ended = False

    async def ask(
        self,
        subject: str,
        publish: Callable[[bytes], None],
        timeout: float,
        accepts: Accepts | None = None,
    ) -> Msg:
        """Publish a request, given the subject for its answer, and return the first answer.

        Answers whose payload `accepts` refuses are dropped, and it keeps waiting: any client that subscribes
        to the subject may answer. A request that was not written yet when its caller gives up is never
        written. Raises what `publish` and `Connection.request` raise.
        """
        loop = asyncio.get_running_loop()
        token = b"%d" % next(self._tokens)
        reply = self._prefix + token
        future: asyncio.Future[Msg] = loop.create_future()
        timer = loop.call_later(max(timeout, 0.0), _expire, future, subject, timeout)
        self._waiting[token] = subject, future, accepts
        try:
            publish(reply)
            return await future
        except BaseException as error:
            if self._connection.session.outbox.withdraw(reply) and isinstance(error, Timeout):
                raise not_sent(subject, timeout) from None
            raise
        finally:
            timer.cancel()
            self._waiting.pop(token, None)

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Hand each answer to its request, and drop answers to requests that ended."""
        start = len(self._prefix)
        for frame in frames:
            subject, future, accepts = self._waiting.get(frame.subject[start:], ("", None, None))
            if future is None or future.done():
                continue
            error = no_responders(frame, subject)
            if error is not None:
                future.set_exception(error)
            elif accepts is None or accepts(frame.data):
                future.set_result(Msg(frame, self._connection))

    def disconnected(self) -> None:
        """Fail the open requests that were written: it is unknown whether the server received them.

        The others are written when the connection is back.
        """
        if not self._waiting:
            return
        self._fail_all(
            lambda subject: ConnectionLost(
                f"the connection broke while waiting for the answer on {subject!r}",
                hint="It is unknown whether the server received the request. Repeat it if that is safe",
            ),
            but=self._connection.session.outbox.replies(),
        )

    def closed(self, error: Error | None) -> None:
        """No more answers can arrive: fail the open requests."""
        self.ended = True
        self._fail_all(lambda _: error or ConnectionClosed("the connection was closed during a request"))

    def publish_refused(self, subject: str, error: Error) -> None:
        """The server does not permit requests on `subject`: fail them."""
        for token, (asked, future, _) in list(self._waiting.items()):
            if asked == subject and not future.done():
                future.set_exception(error)
                self._waiting.pop(token, None)

    def _fail_all(self, make_error: Callable[[str], Error], but: Collection[bytes] = ()) -> None:
        """Fail all open requests but those with these reply subjects."""
        waiting, self._waiting = self._waiting, {}
        for token, request in waiting.items():
            subject, future, _ = request
            if self._prefix + token in but:
                self._waiting[token] = request
            elif not future.done():
                future.set_exception(make_error(subject))


def no_responders(frame: MsgFrame, subject: str) -> NoResponders | None:
    """The error of a request on `subject` if this answer says that nobody subscribes to it."""
    # Compared, not parsed: a service may answer with any bytes.
    if frame.data or not frame.header.startswith(NO_RESPONDERS):
        return None
    return NoResponders(f"no responders on {subject!r}", hint="Is the service running, and in this account?")


def not_sent(subject: str, timeout: float) -> NotSent:
    """The error of a request that was withdrawn when its time was over."""
    return NotSent(
        f"the request on {subject!r} was not sent within {timeout:.3g} s",
        hint="The connection is down, or the server does not read. The request had no effect",
    )


def _expire(future: asyncio.Future[Msg], subject: str, timeout: float) -> None:
    if not future.done():
        future.set_exception(Timeout(f"no answer on {subject!r} within {timeout} s"))
