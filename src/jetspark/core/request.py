"""Requests: one wildcard inbox for all, and for each a token and the future of its answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from jetspark.core.message import Msg
from jetspark.core.receiver import Receiver
from jetspark.errors import ConnectionClosed, ConnectionLost, Error, NoResponders, Timeout
from jetspark.wire import MsgFrame
from jetspark.wire.headers import NO_RESPONDERS

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Accepts", "Requests", "no_responders"]

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
        to the subject may answer. Raises what `publish` and `Connection.request` raise.
        """
        loop = asyncio.get_running_loop()
        token = b"%d" % next(self._tokens)
        future: asyncio.Future[Msg] = loop.create_future()
        timer = loop.call_later(max(timeout, 0.0), _expire, future, subject, timeout)
        self._waiting[token] = subject, future, accepts
        try:
            publish(self._prefix + token)
            return await future
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
        """Fail the open requests: it is unknown whether the server received them."""
        self._fail_all(
            lambda subject: ConnectionLost(
                f"the connection broke while waiting for the answer on {subject!r}",
                hint="The connection reconnects. Repeat the request if it is safe to repeat",
            )
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

    def _fail_all(self, make_error: Callable[[str], Error]) -> None:
        waiting, self._waiting = self._waiting, {}
        for subject, future, _ in waiting.values():
            if not future.done():
                future.set_exception(make_error(subject))


def no_responders(frame: MsgFrame, subject: str) -> NoResponders | None:
    """The error of a request on `subject` if this answer says that nobody subscribes to it."""
    # Compared, not parsed: a service may answer with any bytes.
    if frame.data or not frame.header.startswith(NO_RESPONDERS):
        return None
    return NoResponders(f"no responders on {subject!r}", hint="Is the service running, and in this account?")


def _expire(future: asyncio.Future[Msg], subject: str, timeout: float) -> None:
    if not future.done():
        future.set_exception(Timeout(f"no answer on {subject!r} within {timeout} s"))
