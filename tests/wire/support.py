"""What the wire tests share: ways to cut bytes, ways to feed them, and the recorded transcripts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from jetspark.errors import RemoteProtocolError
from jetspark.wire import (
    AnyFrame,
    ConnectFrame,
    ErrFrame,
    InfoFrame,
    MsgFrame,
    OkFrame,
    Parser,
    PingFrame,
    PongFrame,
    PubFrame,
    SubFrame,
    UnsubFrame,
    encode,
)

Peer: TypeAlias = Literal["server", "client"]

TRANSCRIPTS = Path(__file__).parent / "transcripts"


class Outcome(NamedTuple):
    """What came out of a parser: the frames, whether it refused the rest, and what it keeps."""

    frames: list[AnyFrame]
    refused: bool
    buffered: int


def outcome(parser: Parser, pieces: Iterable[bytes]) -> Outcome:
    """Feed all pieces. Any exception but RemoteProtocolError passes through."""
    frames: list[AnyFrame] = []
    try:
        for piece in pieces:
            frames += parser.feed(piece)
            if parser.error is not None:
                break
    except RemoteProtocolError:
        assert parser.error is not None
    refused = parser.error is not None
    return Outcome(frames, refused, 0 if refused else parser.buffered)


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The pieces of `data` between `cuts`, which may repeat and come in any order."""
    places = [0, *sorted(min(place, len(data)) for place in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def byte_by_byte(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def encode_frame(frame: AnyFrame) -> bytes:
    """The canonical bytes of a frame."""
    match frame:
        case MsgFrame(sid, subject, reply, header, data):
            return encode.msg(sid, subject, reply, header, data)
        case PubFrame(subject, reply, header, data):
            return encode.hpub(subject, reply, header, data) if header else encode.pub(subject, reply, data)
        case SubFrame(sid, subject, queue):
            return encode.sub(subject, queue, sid)
        case UnsubFrame(sid, max_msgs):
            return encode.unsub(sid, max_msgs)
        case InfoFrame(json):
            return encode.info(json)
        case ConnectFrame(json):
            return encode.connect(json)
        case ErrFrame(message):
            return encode.err(message)
        case PingFrame():
            return encode.PING
        case PongFrame():
            return encode.PONG
        case OkFrame():
            return b"+OK\r\n"


def read_transcript(name: str) -> dict[Peer, bytes]:
    """Everything each side sent. A line of a transcript is `server` or `client` and a bytes literal."""
    sent = {"server": b"", "client": b""}
    for line in (TRANSCRIPTS / f"{name}.txt").read_text("ascii").splitlines():
        peer, _, literal = line.partition(" ")
        assert peer in ("server", "client"), line
        sent[peer] += ast.literal_eval(literal)
    return {"server": sent["server"], "client": sent["client"]}
