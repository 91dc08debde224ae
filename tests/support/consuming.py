"""For the tests of consuming: streams with messages, and a proxy that loses single frames."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jetspark import ConsumerConfig, StreamConfig
from jetspark.core.connection import Connection
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.pull.receiver import BatchReceiver, PullReceiver
from jetspark.jetstream.stream import Stream
from jetspark.server import Server

__all__ = [
    "LONG",
    "Lossy",
    "fill",
    "freeze",
    "gathered",
    "listeners",
    "make_consumer",
    "make_stream",
    "pull_requests",
    "sequences",
    "until",
]

#: Seconds; only a hang takes this long.
LONG = 30.0
_AT_ONCE = 1000

PULL = re.compile(rb"PUB \$JS\.API\.CONSUMER\.MSG\.NEXT\.\S+ \S+ \d+\r\n([^\r\n]*)\r\n")
ACK = re.compile(rb"PUB \$JS\.ACK\.\S+ (?:\S+ )?\d+\r\n([^\r\n]*)\r\n")


async def make_stream(js: JetStream, messages: int = 0, **config: Any) -> Stream:
    """Create a stream in memory with `messages` messages, whose data is their sequence."""
    config = {"name": "ORDERS", "subjects": ["orders.>"], "storage": "memory", **config}
    stream = await js.create_stream(StreamConfig(**config))
    await fill(js, stream, messages)
    return stream


async def make_consumer(js: JetStream, messages: int = 0, **config: Any) -> Consumer:
    """Create a consumer of such a stream."""
    stream = await make_stream(js, messages)
    return await stream.create_consumer(ConsumerConfig(**{"name": "worker", **config}))


async def fill(js: JetStream, stream: Stream, messages: int, *, subject: str = "orders.new") -> None:
    """Publish `messages` messages, whose data is their sequence."""
    last = (await stream.info()).state.last_seq
    for start in range(last, last + messages, _AT_ONCE):
        stop = min(start + _AT_ONCE, last + messages)
        for sequence in range(start + 1, stop + 1):
            js.connection.publish(subject, b"%d" % sequence)

        async def stored(stop: int = stop) -> bool:
            return (await stream.info()).state.last_seq == stop

        await until(stored, f"{stop} messages stored")


def sequences(messages: Iterable[JetStreamMsg]) -> list[int]:
    """Return the stream sequences of the messages."""
    return [message.metadata.sequence.stream for message in messages]


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll the server until `condition` holds."""
    try:
        async with asyncio.timeout(2 * LONG):
            while not await condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None


async def freeze(server: Server) -> None:
    """Pause the server and wait until all its threads have stopped; `pause` does not wait for that."""
    server.pause()
    threads = Path(f"/proc/{server.pid}/task")
    while not all(_stopped(thread) for thread in threads.iterdir()):
        await asyncio.sleep(0.001)


def _stopped(thread: Path) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    return True  # It has ended.


def listeners(nc: Connection) -> list[PullReceiver]:
    """Return the pulls that still have a subscription."""
    return [receiver for receiver in nc.session.receivers if isinstance(receiver, PullReceiver)]


def gathered(nc: Connection) -> list[int]:
    """Return how many messages each fetch has that still has a subscription."""
    return [len(fetch.frames) for fetch in listeners(nc) if isinstance(fetch, BatchReceiver)]


class Lossy:
    """A proxy filter that drops a number of matching frames and forwards the rest."""

    def __init__(self, pattern: re.Pattern[bytes], lose: int = 0) -> None:
        self._pattern = pattern
        self.lose = lose
        self.lost: list[bytes] = []
        #: The payloads of all matching frames, dropped or not.
        self.payloads: list[bytes] = []
        self.happened = asyncio.Event()

    def __call__(self, data: bytes) -> bytes:
        return self._pattern.sub(self._pass, data)

    def _pass(self, match: re.Match[bytes]) -> bytes:
        self.payloads.append(match[1])
        self.happened.set()
        if len(self.lost) >= self.lose:
            return match[0]
        self.lost.append(match[0])
        return b""


def pull_requests(seen: Lossy) -> list[dict[str, Any]]:
    """Return the pull requests that the proxy forwarded."""
    return [json.loads(payload) for payload in seen.payloads]
