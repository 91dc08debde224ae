"""What a workload works with: connections, its account, its share of chance, and the phase of the cell."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.support.consuming import listeners

from chaos.record import Record
from chaos.site import STREAM, Site
from jetspark import (
    APIError,
    Connection,
    ConsumerConfig,
    Error,
    LeadershipChanged,
    MissedHeartbeat,
    ServerShutdown,
    blocking,
    connect,
)

__all__ = ["Stage", "is_refusal", "message_id", "passes"]

#: Connections notice faults quickly and come back quickly: a cell has a few seconds.
_OPTIONS: dict[str, Any] = {
    "reconnect_wait": 0.05,
    "max_reconnect_wait": 0.5,
    "ping_interval": 1.0,
    "connect_timeout": 10.0,
    "discover_servers": False,
}
#: Seconds that a call may take beyond what it promises: the machine is loaded.
_GRACE = 10.0
_ACK_WAIT = 3.0
#: Seconds before a call that failed is made again.
_AGAIN = 0.05


def passes(error: Error) -> bool:
    """Whether a call may raise this under faults."""
    return error.transient or isinstance(error, LeadershipChanged | ServerShutdown | MissedHeartbeat)


def is_refusal(error: BaseException) -> bool:
    """Whether this error of a publish says that the message is not stored."""
    return isinstance(error, APIError) and not error.transient


def message_id(payload: bytes) -> str:
    """The id of a message: its writer and its number."""
    return payload.decode().rstrip()


class Stage:
    """The surroundings of one workload. `calm` and `is_ready` are plain attributes: threads poll them."""

    def __init__(self, site: Site, record: Record, name: str, *, seed: int, pace: float) -> None:
        self.site = site
        self.record = record
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self.pace = pace
        #: Whether the workload is set up. Faults begin when all are.
        self.is_ready = False
        #: Whether the faults are over: writers end, readers read to the end.
        self.calm = False

    def ready(self) -> None:
        self.is_ready = True

    # --- connections

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """A connection through the proxies. A pull that still has its subscription at the end is a leak."""
        async with connect(self.site.urls, name=self.name, on_error=self._report, **_OPTIONS) as nc:
            yield nc
            if left := listeners(nc):
                self.record.findings.append(f"leak: {self.name}: {len(left)} pulls still subscribed")

    def connect_blocking(self) -> blocking.Connection:
        return blocking.connect(self.site.urls, name=self.name, on_error=self._report, **_OPTIONS)

    def durable(self, name: str | None = None) -> ConsumerConfig:
        """A durable consumer of the workload, with as many replicas as the stream."""
        return ConsumerConfig(durable_name=name or self.name, ack_wait=_ACK_WAIT, max_ack_pending=500)

    async def pull_consumer(self, nc: Connection) -> Any:
        return await nc.jetstream(timeout=20).create_consumer(STREAM, self.durable())

    # --- time

    async def rest(self, shortest: float, longest: float) -> None:
        await asyncio.sleep(self.random.uniform(shortest, longest) * self.pace)

    def rest_blocking(self, shortest: float, longest: float) -> None:
        time.sleep(self.random.uniform(shortest, longest) * self.pace)

    @contextmanager
    def within(self, seconds: float, what: str) -> Iterator[None]:
        """The call must not take longer, whatever happens."""
        start = time.monotonic()
        yield
        if (took := time.monotonic() - start) > seconds + _GRACE:
            text = f"hang: {self.name}: {what} took {took:.1f} s and promises {seconds:g} s"
            self.record.findings.append(text)

    @asynccontextmanager
    async def watch(self, complete: Callable[[], bool], stop: Callable[[], object]) -> AsyncIterator[None]:
        """Call `stop` when everything is read."""

        async def watching() -> None:
            while not complete():
                await asyncio.sleep(0.02)
            stop()

        task = asyncio.create_task(watching())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    # --- errors

    @asynccontextmanager
    async def tolerance(self) -> AsyncIterator[None]:
        """Count errors that are allowed under faults."""
        try:
            yield
        except Error as error:
            self.count(error)
            await asyncio.sleep(_AGAIN)

    @contextmanager
    def tolerance_blocking(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            self.count(error)
            time.sleep(_AGAIN)

    def count(self, error: Error) -> None:
        """Count an error that is allowed under faults. Raises any other."""
        if not passes(error):
            raise error
        self.record.errors[type(error).__name__] += 1

    def _report(self, error: Exception) -> None:
        """Errors that no call could raise are told, and harm nobody."""

    # --- publishing

    def payload(self) -> bytes:
        """The next message of this writer, of a random size."""
        return self.record.ledger.attempt(self.name, size=self.random.choice((0, 0, 100, 3000)))

    async def store(self, payloads: list[bytes], publish: Callable[[bool], Awaitable[object]]) -> None:
        """Publish until the stream has it, and enter the outcome. `publish` gets whether it was tried before.

        A refusal says that nothing is stored; unless an earlier try may have stored it.
        """
        again = False
        while True:
            try:
                await publish(again)
            except Error as error:
                if is_refusal(error):
                    if not again:
                        self.refused(payloads, error)
                    return
                self.count(error)
                again = True
                await asyncio.sleep(_AGAIN)
            else:
                self.acknowledged(payloads)
                return

    def acknowledged(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.record.ledger.acknowledge(payload)

    def refused(self, payloads: list[bytes], error: BaseException) -> None:
        self.record.errors[f"refused: {error}"] += 1
        for payload in payloads:
            self.record.ledger.refuse(payload)
