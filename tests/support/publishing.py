"""For the tests of publishing: a scripted stream, and proxies that lose acknowledgements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.stream import Stream
from jetspark.wire import PubFrame
from jetspark.wire.headers import Headers
from tests.support.proxy import TCPProxy
from tests.support.scripted import Peer, ScriptedServer
from tests.support.watch import eventually

__all__ = [
    "ScriptedStream",
    "came",
    "lose_acknowledgements",
    "make_stream",
    "message_id",
    "numbered",
    "stored",
]

NOBODY = "503"


async def make_stream(js: JetStream, **config: Any) -> Stream:
    """Create a stream ORDERS of `orders.>` in memory."""
    config = {"name": "ORDERS", "subjects": ["orders.>"], "storage": "memory", **config}
    return await js.create_stream(StreamConfig(**config))


async def stored(stream: Stream) -> list[bytes]:
    """Return the data of every message of a stream, in order."""
    state = (await stream.info()).state
    if not state.messages:
        return []
    return [(await stream.get_message(number)).data for number in range(state.first_seq, state.last_seq + 1)]


def numbered(count: int) -> Iterator[bytes]:
    """Return b"1", b"2" and so on."""
    return (b"%d" % number for number in range(1, count + 1))


async def came(stream: ScriptedStream, count: int) -> None:
    """Wait until a scripted stream has received `count` messages."""
    await eventually(lambda: len(stream.received) >= count, f"{count} messages on the scripted stream")


def message_id(frame: PubFrame) -> str:
    return Headers.parse(frame.header)["Nats-Msg-Id"]


class ScriptedStream:
    """A scripted stream of `orders.>`: it keeps messages until the test answers them.

    The API says that there is a stream for every subject that starts with `orders.`.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.received: list[PubFrame] = []
        """Every message in order of arrival, with repeated ones."""
        self.unanswered: list[tuple[Peer, PubFrame]] = []
        self.most_unanswered = 0
        self.on_message: Callable[[PubFrame], None] = lambda _: None
        """Called after each message."""
        self._sequence = 0
        server.on("$JS.API.STREAM.NAMES", self._names)
        server.on("orders.>", self._take)
        server.on("nobody.>", lambda peer, request: peer.answer(request, status=NOBODY))

    @property
    def data(self) -> list[bytes]:
        return [frame.data for frame in self.received]

    @property
    def ids(self) -> list[str]:
        return [message_id(frame) for frame in self.received]

    def acknowledge(self, count: int | None = None) -> None:
        """Answer the oldest messages, or all."""
        for peer, frame in self._oldest(count):
            self._sequence += 1
            peer.answer(frame, json.dumps({"stream": "ORDERS", "seq": self._sequence}).encode())

    def refuse(self, count: int | None = None, *, err_code: int, code: int = 400, text: str = "no") -> None:
        """Answer the oldest messages, or all, with an error."""
        error = {"error": {"code": code, "err_code": err_code, "description": text}, "stream": "ORDERS"}
        for peer, frame in self._oldest(count):
            peer.answer(frame, json.dumps(error).encode())

    def nobody(self, count: int | None = None) -> None:
        """Answer the oldest messages, or all, as without responders."""
        for peer, frame in self._oldest(count):
            peer.answer(frame, status=NOBODY)

    def lose(self) -> None:
        """Never answer the messages received so far."""
        self.unanswered.clear()

    def _oldest(self, count: int | None) -> list[tuple[Peer, PubFrame]]:
        count = len(self.unanswered) if count is None else count
        oldest, self.unanswered = self.unanswered[:count], self.unanswered[count:]
        return oldest

    def _take(self, peer: Peer, frame: PubFrame) -> None:
        self.received.append(frame)
        self.unanswered.append((peer, frame))
        self.most_unanswered = max(self.most_unanswered, len(self.unanswered))
        self.on_message(frame)

    def _names(self, peer: Peer, request: PubFrame) -> None:
        known = json.loads(request.data)["subject"].startswith("orders.")
        peer.answer(request, json.dumps({"streams": ["ORDERS"] if known else None, "total": 0}).encode())


def lose_acknowledgements(proxy: TCPProxy, lost: Callable[[bytes], bool]) -> list[bytes]:
    """Drop each acknowledgement, a line and its JSON, for which `lost` is true; returns their list."""
    dropped: list[bytes] = []
    rest = b""

    def change(data: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\r\n")
        kept = []
        skipping = False
        for number, line in enumerate(lines):
            answer = lines[number + 1] if line.startswith(b"MSG _INBOX.") and number + 1 < len(lines) else b""
            if skipping:
                skipping = False
            elif b'"seq":' in answer and lost(answer):
                dropped.append(answer)
                skipping = True
            else:
                kept.append(line + b"\r\n")
        if lines and lines[-1].startswith(b"MSG _INBOX.") and not skipping:
            rest = kept.pop() + rest  # its JSON has not arrived yet
        return b"".join(kept)

    proxy.server_to_client = change
    return dropped
