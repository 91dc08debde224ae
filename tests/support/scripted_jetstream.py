"""Scripted JetStream: the API answers, pull requests wait until the test answers them.

    async with ScriptedJetStream() as server, connect(server.url) as nc:
        consumer = await JetStream(nc).get_consumer("S", "C")
        fetching = asyncio.create_task(consumer.fetch(5))
        pull = await server.pull()                                # the next pull request
        assert pull.batch == 5
        pull.send(pull.message(b"one"), pull.status("408 Request Timeout", messages=4))

One `send` is one write, and so arrives in one read if it is small.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol, Self, TypeVar

from jetspark.wire import PingFrame, PubFrame, encode
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import subject_matches
from tests.support.scripted import Peer, ScriptedServer, _header_block

__all__ = ["Pull", "ScriptedJetStream", "soon"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_LONG = 20.0  # seconds; only a hang takes this long
_EPOCH = "2026-01-01T00:00:00Z"


class _Queue(Protocol[T_co]):
    async def get(self) -> T_co: ...


async def soon(waiting: _Queue[T]) -> T:
    """Return the next item of a queue. Raises TimeoutError when none comes."""
    async with asyncio.timeout(_LONG):
        return await waiting.get()


class Pull:
    """One pull request, with the answers to it."""

    def __init__(self, server: ScriptedJetStream, peer: Peer, frame: PubFrame) -> None:
        self._server = server
        self.peer = peer
        self.reply = frame.reply.decode()
        self.consumer = frame.subject.decode().rpartition(".")[2]
        self.request: dict[str, Any] = json.loads(frame.data)
        # Kept, so that answers continue after an UNSUB, like those already in flight.
        self.sid = next(
            sid
            for sid, subscription in peer.subscriptions.items()
            if subject_matches(subscription.subject.decode(), self.reply)
        )

    @property
    def batch(self) -> int:
        """The number of messages requested."""
        return int(self.request["batch"])

    def send(self, *frames: bytes) -> None:
        """Send the frames of `message` and `status` in one write."""
        self.peer.send(b"".join(frames))

    def message(
        self,
        data: bytes = b"data",
        *,
        headers: HeadersLike | None = None,
        status: str = "",
        sequence: int | None = None,
        consumer_sequence: int | None = None,
        ack: str | None = None,
    ) -> bytes:
        """Return the next message of the stream; also the next delivery of the consumer, unless given.

        `ack` is the reply subject of a message that another client sends.
        """
        sequence = sequence or self._server.next_sequence
        self._server.next_sequence = sequence + 1
        delivered = self._server.delivered
        consumer_sequence = consumer_sequence or delivered.get(self.consumer, 0) + 1
        delivered[self.consumer] = consumer_sequence
        numbers = f"1.{sequence}.{consumer_sequence}.1700000000000000000.0"
        if ack is None:
            ack = f"$JS.ACK.{self._server.stream}.{self.consumer}.{numbers}"
        header = _header_block(headers, status)
        return encode.msg(self.sid, f"orders.{sequence}".encode(), ack.encode(), header, data)

    def messages(self, count: int, data: bytes = b"data") -> bytes:
        """Return the next messages."""
        return b"".join(self.message(data) for _ in range(count))

    def status(
        self, line: str, *, messages: int | None = None, bytes: int | None = None, data: bytes = b""
    ) -> bytes:
        """Return a status, with the remaining counts where the server sends them."""
        headers = {}
        if messages is not None or bytes is not None:
            headers = {"Nats-Pending-Messages": str(messages or 0), "Nats-Pending-Bytes": str(bytes or 0)}
        return encode.msg(self.sid, self.reply.encode(), b"", _header_block(headers, line), data)


class ScriptedJetStream(ScriptedServer):
    """A stream `S` with consumers of any name, each with this configuration."""

    stream = "S"

    def __init__(self, *, config: dict[str, Any] | None = None, info: dict[str, Any] | None = None) -> None:
        super().__init__(info=info)
        self.config = {"ack_policy": "explicit"} | (config or {})
        self.created: list[dict[str, Any]] = []
        """The configurations of the created consumers."""
        self.deleted: asyncio.Queue[str] = asyncio.Queue()
        """The names of the deleted consumers."""
        self.refusals: list[dict[str, Any] | None] = []
        """The answers to the next creations: an API error, or None for no responders."""
        self.acks: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        """Acknowledgement subjects and the bodies published to them."""
        self.missing = False
        """Whether the API answers that there is no consumer."""
        self.num_waiting = 0
        self.next_sequence = 1
        self.delivered: dict[str, int] = {}
        self._pulls: asyncio.Queue[Pull] = asyncio.Queue()
        self.on("$JS.API.CONSUMER.CREATE.>", self._create)
        self.on("$JS.API.CONSUMER.INFO.S.*", self._info)
        self.on("$JS.API.CONSUMER.DELETE.S.*", self._delete)
        self.on("$JS.API.CONSUMER.MSG.NEXT.S.*", self._pull)
        self.on("$JS.ACK.>", self._acknowledge)

    async def pull(self) -> Pull:
        """Return the next pull request. Raises TimeoutError when none comes."""
        return await soon(self._pulls)

    @property
    def idle(self) -> bool:
        """Whether the test has seen all pull requests."""
        return self._pulls.empty()

    async def naks(self, count: int) -> list[int]:
        """Return the stream sequences of the next returned messages; fails when one is acknowledged."""
        sequences = []
        for _ in range(count):
            subject, kind = await soon(self.acks)
            assert kind == b"-NAK"
            sequences.append(int(subject.split(".")[5]))
        return sequences

    def hold_pongs(self) -> None:
        """Answer no PING, so that a flush keeps waiting."""
        self.answers_pings = False
        self._pings = len(self.peers[-1].all(PingFrame))

    async def release_pongs(self) -> None:
        """Answer the held PINGs, at least one, and all later ones."""
        peer = self.peers[-1]
        async with asyncio.timeout(_LONG):
            while len(peer.all(PingFrame)) == self._pings:
                await asyncio.sleep(0.001)
        self.answers_pings = True
        peer.send(encode.PONG * (len(peer.all(PingFrame)) - self._pings))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def _consumer(self, name: str, config: dict[str, Any]) -> bytes:
        zero = {"consumer_seq": 0, "stream_seq": 0}
        info = {"stream_name": self.stream, "name": name, "created": _EPOCH, "config": config}
        counts = {"delivered": zero, "ack_floor": zero, "num_waiting": self.num_waiting}
        return json.dumps(info | counts).encode()

    def _create(self, peer: Peer, frame: PubFrame) -> None:
        if self.refusals:
            error = self.refusals.pop(0)
            if error is None:
                peer.answer(frame, status="503")
            else:
                peer.answer(frame, json.dumps({"error": error}).encode())
            return
        config = json.loads(frame.data)["config"]
        self.created.append(config)
        peer.answer(frame, self._consumer(config["name"], config))

    def _info(self, peer: Peer, frame: PubFrame) -> None:
        name = frame.subject.decode().rpartition(".")[2]
        if self.missing:
            error = {"code": 404, "err_code": 10014, "description": "consumer not found"}
            peer.answer(frame, json.dumps({"error": error}).encode())
        else:
            peer.answer(frame, self._consumer(name, self.config | {"name": name}))

    def _delete(self, peer: Peer, frame: PubFrame) -> None:
        self.deleted.put_nowait(frame.subject.decode().rpartition(".")[2])
        peer.answer(frame, b'{"success":true}')

    def _pull(self, peer: Peer, frame: PubFrame) -> None:
        self._pulls.put_nowait(Pull(self, peer, frame))

    def _acknowledge(self, peer: Peer, frame: PubFrame) -> None:
        self.acks.put_nowait((frame.subject.decode(), frame.data))
