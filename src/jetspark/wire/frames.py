"""The frames of the NATS protocol, both directions. Plain data.

Fields stay bytes: a subject is decoded, and a header block parsed (`headers.py`), when a user reads it.
`gc=False` hides a million buffered frames from the garbage collector; a frame refers to nothing but bytes, so
it cannot be part of a cycle.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

__all__ = [
    "OK",
    "PING",
    "PONG",
    "AnyFrame",
    "ConnectFrame",
    "ErrFrame",
    "Frame",
    "InfoFrame",
    "MsgFrame",
    "OkFrame",
    "PingFrame",
    "PongFrame",
    "PubFrame",
    "SubFrame",
    "UnsubFrame",
]


class Frame(msgspec.Struct, gc=False, frozen=True):
    """The base of frames without a subscription: their `sid` is None."""

    sid: ClassVar[bytes | None] = None


class MsgFrame(msgspec.Struct, gc=False):
    """MSG and HMSG: a message for subscription `sid`. `reply` and `header` are empty when absent."""

    sid: bytes
    subject: bytes
    reply: bytes
    header: bytes
    data: bytes

    @property
    def size(self) -> int:
        """The bytes of its subject, reply, header and payload: as the server counts them."""
        return len(self.subject) + len(self.reply) + len(self.header) + len(self.data)


class PubFrame(Frame, frozen=True):
    """PUB and HPUB. `reply` and `header` are empty when absent."""

    subject: bytes
    reply: bytes
    header: bytes
    data: bytes


class SubFrame(msgspec.Struct, gc=False, frozen=True):
    """SUB. `queue` is empty when there is no queue group."""

    sid: bytes
    subject: bytes
    queue: bytes


class UnsubFrame(msgspec.Struct, gc=False, frozen=True):
    """UNSUB. `max_msgs` 0 means at once, otherwise after that many messages in all."""

    sid: bytes
    max_msgs: int


class InfoFrame(Frame, frozen=True):
    """INFO: the server's JSON about itself."""

    json: bytes


class ConnectFrame(Frame, frozen=True):
    """CONNECT: the client's JSON about itself."""

    json: bytes


class ErrFrame(Frame, frozen=True):
    """-ERR, its text without the quotes."""

    message: str


class PingFrame(Frame, frozen=True):
    """PING."""


class PongFrame(Frame, frozen=True):
    """PONG."""


class OkFrame(Frame, frozen=True):
    """+OK."""


AnyFrame: TypeAlias = (
    MsgFrame
    | PubFrame
    | SubFrame
    | UnsubFrame
    | InfoFrame
    | ConnectFrame
    | ErrFrame
    | PingFrame
    | PongFrame
    | OkFrame
)

PING = PingFrame()
PONG = PongFrame()
OK = OkFrame()
