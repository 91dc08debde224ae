"""Agents and streams for the tests of the log pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jetspark import ConnectionLost, JetStream, JetStreamMsg, Stream, Timeout
from jetspark.logs.agent.agent import Agent
from jetspark.logs.agent.options import ShipOptions

LONG = 60.0  # seconds; only a hang takes so long


async def until(done: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask again and again until `done`."""
    try:
        async with asyncio.timeout(LONG):
            while not await done():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not yet after {LONG:g} s: {what}") from None


async def stored(stream: Stream, number: int) -> None:
    """Wait until the stream has so many messages."""

    async def enough() -> bool:
        try:
            return (await stream.info()).state.messages >= number
        except (ConnectionLost, Timeout):
            return False  # The server was killed, and is slow to come back.

    await until(enough, f"{number} messages in {stream.name}, there are {stream.cached_info.state.messages}")


async def read_all(stream: Stream) -> list[JetStreamMsg]:
    """Everything in the stream."""
    count = (await stream.info()).state.messages
    found: list[JetStreamMsg] = []
    reader = await stream.ordered_consumer()
    while len(found) < count:
        batch = await reader.fetch(min(count - len(found), 5000), expires=10.0)
        assert batch, f"{len(found)} of {count} messages could be read"
        found += batch
    await reader.delete()
    return found


async def lines_of(stream: Stream) -> list[bytes]:
    return [message.data for message in await read_all(stream)]


class Running:
    """An agent that runs, and what it has said."""

    def __init__(self, js: JetStream, options: ShipOptions) -> None:
        self.notes: list[str] = []
        self.agent = Agent(js, options, self.notes.append)
        self.task = asyncio.create_task(self.agent.run())

    async def end(self) -> None:
        async with asyncio.timeout(LONG):
            await self.task

    async def stop(self) -> None:
        self.agent.stop()
        await self.end()

    async def follows(self, number: int) -> None:
        """Wait until it follows so many files."""

        async def does() -> bool:
            return self.agent.status().files == number

        await until(does, f"{number} files, there are {self.agent.status().files}")

    async def says(self, words: str) -> None:
        """Wait until it has said something with these words."""

        async def said() -> bool:
            if self.task.done():
                self.task.result()
            return any(words in note for note in self.notes)

        await until(said, f"a note with {words!r} among {self.notes}")


@asynccontextmanager
async def shipping(js: JetStream, stream: Stream, directory: Path, **options: Any) -> AsyncIterator[Running]:
    """An agent that follows `*.log` in a directory, until the context ends."""
    settings: dict[str, Any] = {
        "patterns": [str(directory / "*.log")],
        "positions": directory / "positions.json",
        "prefix": stream.name.lower(),
        "host": "web1",
        "poll": 0.02,
        "save_every": 0.05,
        "control": False,
        **options,
    }
    running = Running(js, ShipOptions(**settings))
    try:
        yield running
        await running.stop()
    finally:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)


async def ship_once(js: JetStream, stream: Stream, directory: Path, **options: Any) -> Running:
    """Ship what is there."""
    async with shipping(js, stream, directory, once=True, **options) as running:
        await running.end()
    return running
