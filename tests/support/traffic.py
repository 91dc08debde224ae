"""Publishes into a stream continuously, with a ledger of the messages that the stream has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from jetspark import Connection, Error, StreamConfig, StreamNotFound, connect
from jetspark.jetstream.stream import Stream
from tests.support.consuming import until
from tests.support.ledger import Ledger
from tests.support.watch import eventually

__all__ = ["Traffic"]


class Traffic:
    """Publishes to `events.x`, over a connection of its own, from the start of the context until `stop`."""

    def __init__(self, url: str, ledger: Ledger, *, replicas: int = 1, storage: str = "file") -> None:
        self._url = url
        self._ledger = ledger
        self._config = StreamConfig(
            name="EVENTS", subjects=["events.>"], num_replicas=replicas, storage=storage
        )
        self._task: asyncio.Task[None] | None = None
        self.connection: Connection
        self.stream: Stream

    async def __aenter__(self) -> Self:
        self.connection = await connect(self._url, reconnect_wait=0.05, max_reconnect_wait=0.2)
        try:
            await until(self._begun, "an empty stream")
        except BaseException:
            await self.connection.close()
            raise
        self._task = asyncio.create_task(self._publish())
        return self

    async def _begun(self) -> bool:
        """Whether it could be created, after one that an earlier test could not delete for want of a leader.

        That one knows the ids of our messages; and a server that was killed there may not be back yet.
        """
        js = self.connection.jetstream()
        try:
            with suppress(StreamNotFound):
                await js.delete_stream("EVENTS")
            self.stream = await js.create_stream(self._config)
        except Error:
            return False
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with suppress(Error):
            await self.connection.jetstream(timeout=1).delete_stream("EVENTS")
        await self.connection.close()

    async def _publish(self) -> None:
        js = self.connection.jetstream(timeout=1)
        while True:
            payload = self._ledger.attempt()
            while True:
                try:
                    await js.publish("events.x", payload, msg_id=payload.decode())
                except Error:
                    await asyncio.sleep(0.01)  # Retry with the same id until the stream has it.
                else:
                    break
            self._ledger.acknowledge(payload)
            await asyncio.sleep(0.001)

    async def flowing(self) -> None:
        """Wait until a message arrives that was published after this call."""
        published = len(self._ledger.attempted)
        await eventually(
            lambda: any(_number(payload) > published for payload in self._ledger.seen[-100:]),
            "messages to flow again",
            None,
            self._ledger,
        )

    async def stop(self) -> None:
        """Stop publishing, and wait until all messages of the stream are read."""
        assert self._task is not None
        acknowledged = len(self._ledger.acknowledged)
        await eventually(lambda: len(self._ledger.acknowledged) > acknowledged, "a last publish")
        self._task.cancel()
        await asyncio.wait([self._task])
        try:
            await eventually(lambda: not self._ledger.lost, "all to be read", None, self._ledger)
        except AssertionError as error:
            error.add_note(await self._server_says())
            raise

    async def _server_says(self) -> str:
        """Return the state of the stream and of its consumers."""
        state = (await self.stream.info()).state
        consumers = [info async for info in self.stream.consumers()]
        return "\n".join([f"the stream: {state}", *(f"a consumer: {info}" for info in consumers)])

    async def no_consumers(self) -> None:
        """Wait until the server has no consumers of the readers left."""

        async def none() -> bool:
            return not [name async for name in self.stream.consumer_names()]

        await until(none, "the consumers to be gone")


def _number(payload: bytes) -> int:
    return int(payload.rpartition(b"-")[2])
