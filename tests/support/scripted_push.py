"""Scripted JetStream with push consumers: the test chooses deliveries, heartbeats and flow control.

    async with ScriptedPush() as server, connect(server.url) as nc:
        subscription = await nc.jetstream().subscribe("s", durable="D")
        server.send(server.message(b"one"), server.flow_control("$JS.FC.1"), server.message(b"two"))
        assert await server.answered() == "$JS.FC.1"

One `send` is one write, and so arrives in one read if it is small.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jetspark.wire import PubFrame, encode
from tests.support.scripted import Peer, ScriptedServer, _header_block
from tests.support.scripted_jetstream import soon

__all__ = ["ScriptedPush"]

_NOT_FOUND = {"code": 404, "err_code": 10014, "description": "consumer not found"}


class ScriptedPush(ScriptedServer):
    """Streams that match any subject, `S` by default, and the consumers that clients create."""

    def __init__(self, *, info: dict[str, Any] | None = None, streams: tuple[str, ...] = ("S",)) -> None:
        super().__init__(info={"jetstream": True} | (info or {}))
        self.streams = streams
        self.consumers: dict[str, dict[str, Any]] = {}
        """The configurations of the existing consumers, by name."""
        self.bound: set[str] = set()
        """The consumers with a subscriber on their deliver subject."""
        self.created: list[tuple[str, dict[str, Any]]] = []
        """The subjects and bodies of the create requests."""
        self.hidden: set[str] = set()
        """Consumers that the next lookup does not find, and that exist when the client creates one."""
        self.deletion: dict[str, Any] | None = None
        """The answer to deletions: an API error, or None for success."""
        self.deleted: asyncio.Queue[str] = asyncio.Queue()
        self.acks: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self._sequence = 0
        self.on("$JS.API.STREAM.NAMES", self._names)
        self.on("$JS.API.CONSUMER.CREATE.>", self._create)
        self.on("$JS.API.CONSUMER.DURABLE.CREATE.>", self._create)
        self.on("$JS.API.CONSUMER.INFO.*.*", self._info)
        self.on("$JS.API.CONSUMER.DELETE.*.*", self._delete)
        self.on("$JS.ACK.>", lambda _, frame: self.acks.put_nowait((frame.subject.decode(), frame.data)))
        self.on("$JS.FC.>", lambda _, frame: self.answers.put_nowait(frame.subject.decode()))

    @property
    def peer_now(self) -> Peer:
        return self.peers[-1]

    @property
    def name(self) -> str:
        """The consumer created last."""
        return list(self.consumers)[-1]

    async def answered(self) -> str:
        """Return the next flow control subject that the client answers."""
        return await soon(self.answers)

    # --- sent by the server

    def send(self, *frames: bytes) -> None:
        self.peer_now.send(b"".join(frames))

    def message(
        self,
        data: bytes = b"data",
        *,
        skip: int = 0,
        sequence: int | None = None,
        reply: str | None = None,
        header: bytes = b"",
        name: str | None = None,
    ) -> bytes:
        """Return the next message; `skip` leaves some out. Deliveries are numbered like the stream."""
        self._sequence = (sequence or self._sequence + 1) + skip
        numbers = f"1.{self._sequence}.{self._sequence}.1700000000000000000.0"
        ack = f"$JS.ACK.S.{name or self.name}.{numbers}" if reply is None else reply
        return encode.msg(self._sid(name), b"s.new", ack.encode(), header, data)

    def heartbeat(self, last: int, *, stalled: str = "", name: str | None = None) -> bytes:
        headers = {"Nats-Last-Consumer": str(last), "Nats-Last-Stream": str(last)}
        if stalled:
            headers["Nats-Consumer-Stalled"] = stalled
        block = _header_block(headers, "100 Idle Heartbeat")
        return encode.msg(self._sid(name), self._deliver(name).encode(), b"", block, b"")

    def flow_control(self, subject: str) -> bytes:
        block = _header_block(None, "100 FlowControl Request")
        return encode.msg(self._sid(None), self._deliver(None).encode(), subject.encode(), block, b"")

    def status(self, line: str) -> bytes:
        return encode.msg(self._sid(None), self._deliver(None).encode(), b"", _header_block(None, line), b"")

    def restart_numbers(self) -> None:
        """Number deliveries from 1 again, for the next consumer of a chain."""
        self._sequence = 0

    def _deliver(self, name: str | None) -> str:
        return str(self.consumers[name or self.name]["deliver_subject"])

    def _sid(self, name: str | None) -> bytes:
        deliver = self._deliver(name).encode()
        subscriptions = self.peer_now.subscriptions.values()
        return next(sub.sid for sub in subscriptions if sub.subject == deliver)

    # --- answers of the API

    def consumer(self, name: str, config: dict[str, Any]) -> bytes:
        zero = {"consumer_seq": 0, "stream_seq": 0}
        info = {"stream_name": "S", "name": name, "created": "2026-01-01T00:00:00Z", "config": config}
        return json.dumps(
            info | {"delivered": zero, "ack_floor": zero, "push_bound": name in self.bound}
        ).encode()

    def _names(self, peer: Peer, frame: PubFrame) -> None:
        page = {"total": len(self.streams), "offset": 0, "limit": 1024, "streams": list(self.streams)}
        peer.answer(frame, json.dumps(page).encode())

    def _create(self, peer: Peer, frame: PubFrame) -> None:
        subject, body = frame.subject.decode(), json.loads(frame.data)
        self.created.append((subject, body))
        config = body["config"]
        name = config.get("name") or config.get("durable_name") or f"given{len(self.created)}"
        if name in self.consumers and self.consumers[name] != config:
            error = {"code": 400, "err_code": 10148, "description": "consumer already exists"}
            peer.answer(frame, json.dumps({"error": error}).encode())
            return
        self.consumers[name] = config
        peer.answer(frame, self.consumer(name, config))

    def _info(self, peer: Peer, frame: PubFrame) -> None:
        name = frame.subject.decode().rpartition(".")[2]
        if name in self.hidden or name not in self.consumers:
            self.hidden.discard(name)
            peer.answer(frame, json.dumps({"error": _NOT_FOUND}).encode())
        else:
            peer.answer(frame, self.consumer(name, self.consumers[name]))

    def _delete(self, peer: Peer, frame: PubFrame) -> None:
        name = frame.subject.decode().rpartition(".")[2]
        self.deleted.put_nowait(name)
        if self.deletion is not None:
            peer.answer(frame, json.dumps({"error": self.deletion}).encode())
            return
        self.consumers.pop(name, None)
        peer.answer(frame, b'{"success":true}')
