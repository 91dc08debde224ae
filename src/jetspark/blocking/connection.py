"""The connection and `connect` of blocking programs. Twin of `core/connection.py` and `client.py`."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, Self

from jetspark import client as aio
from jetspark.blocking.context import JetStream
from jetspark.blocking.message import Msg, blocking_message
from jetspark.blocking.mirror import Twin, calls, mirrors, twin
from jetspark.blocking.subscription import Callback, Subscription
from jetspark.blocking.threads.bridge import Bridge
from jetspark.blocking.threads.supply import iterate
from jetspark.core.connection import PENDING_BYTES_LIMIT, PENDING_MSGS_LIMIT, Statistics
from jetspark.core.events import Event, Listener
from jetspark.core.link import State
from jetspark.core.server_info import ServerInfo
from jetspark.errors import Error
from jetspark.wire.headers import HeadersLike

__all__ = ["Connection", "connect", "from_env"]

P = ParamSpec("P")


@mirrors(aio.Connection)
class Connection(Twin[aio.Connection]):
    """A connection to NATS, made by `jetspark.blocking.connect`. All threads of the process may use it.

    `with` closes it at the end. `publish` waits while too much is queued; after `drain_timeout` seconds it
    raises `Timeout`, and the message stays queued. Listeners, callbacks and handlers are plain functions, run
    in their own threads and may block; `close` gives them two seconds to finish. In a forked child every
    call raises `ConnectionClosed`: connect again there.
    """

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge, bridge.connection)

    @property
    def state(self) -> State:
        return self._inner.state

    @property
    def connected(self) -> bool:
        return self._inner.connected

    @property
    def closed(self) -> bool:
        return self._inner.closed

    @property
    def draining(self) -> bool:
        return self._inner.draining

    @property
    def last_error(self) -> Error | None:
        return self._inner.last_error

    @property
    def server_info(self) -> ServerInfo:
        return self._inner.server_info

    @property
    def connected_url(self) -> str | None:
        return self._inner.connected_url

    @property
    def servers(self) -> list[str]:
        return self._inner.servers

    @servers.setter
    def servers(self, servers: str | Iterable[str]) -> None:
        self._bridge.portal.call(setattr, self._inner, "servers", servers)

    @property
    def max_payload(self) -> int:
        return self._inner.max_payload

    @property
    def statistics(self) -> Statistics:
        statistics = self._inner.statistics
        return dataclasses.replace(statistics, out_msgs=statistics.out_msgs + self._bridge.writer.published)

    def on(self, event: Event, listener: Listener) -> Callable[[], None]:
        return self._inner.on(event, self._bridge.aside("listener", listener))

    # --- publish, subscribe, request

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> None:
        self._bridge.writer.publish(self._inner.frame(subject, data, reply, headers))

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        max_msgs: int | None = None,
        pending_msgs_limit: int = PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = PENDING_BYTES_LIMIT,
    ) -> Subscription:
        subscription = self._inner.subscribe(
            subject,
            queue=queue,
            max_msgs=max_msgs,
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
        )
        return self._inner.class_of(Subscription).open(self._bridge, subscription, callback)

    request = calls(aio.Connection.request, blocking_message)

    def request_many(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
        max_msgs: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[Msg], bool] | None = None,
    ) -> Iterator[Msg]:
        answers = self._inner.request_many(
            subject,
            data,
            timeout=timeout,
            headers=headers,
            max_msgs=max_msgs,
            stall=stall,
            sentinel=None
            if sentinel is None
            else lambda answer: sentinel(blocking_message(self._bridge, answer)),
        )
        for answer in iterate(self._bridge.portal, answers):
            yield blocking_message(self._bridge, answer)

    def new_inbox(self) -> str:
        return self._inner.new_inbox()

    def jetstream(
        self, *, domain: str | None = None, api_prefix: str | None = None, timeout: float = 5.0
    ) -> JetStream:
        inner = self._inner.jetstream(domain=domain, api_prefix=api_prefix, timeout=timeout)
        return JetStream(self, self._bridge, inner)

    def flush(self, timeout: float | None = None) -> None:
        self._bridge.run(self._flush(timeout))

    rtt = calls(aio.Connection.rtt)
    wait_connected = calls(aio.Connection.wait_connected)
    reconnect = calls(aio.Connection.reconnect)

    async def _flush(self, timeout: float | None) -> None:
        seconds = self._inner.options.request_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        await self._bridge.writer.settle(seconds)
        await self._inner.flush(deadline - time.monotonic())

    # --- ending

    def drain(self) -> None:
        try:
            self._bridge.run(self._drain())
        finally:
            self.close()

    async def _drain(self) -> None:
        seconds = self._inner.options.drain_timeout
        deadline = asyncio.get_running_loop().time() + seconds
        await self._bridge.writer.settle(seconds)
        await self._inner.drain_until(deadline)

    def close(self) -> None:
        self._bridge.close()

    wait_closed = calls(aio.Connection.wait_closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _connects(function: Callable[P, aio.Connecting]) -> Callable[P, Connection]:
    def connect(*args: P.args, **kwargs: P.kwargs) -> Connection:
        connecting = function(*args, **kwargs)
        return Connection(Bridge(connecting._servers, connecting._options))

    return twin(function, connect, "Connection")


connect = _connects(aio.connect)
from_env = _connects(aio.from_env)
