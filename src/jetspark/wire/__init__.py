"""Bytes to frames and frames to bytes. No asyncio, no sockets, no clock.

In reading order:

- `frames`: the frames of the NATS protocol, as plain data.
- `parser`: bytes to frames.
- `encode`: frames to bytes.
- `headers`: the header block of a message, and the mapping that users see.
- `subjects`: which subjects and names are valid, and which subjects match a pattern.

Other packages import the parser, the frames and the encoders from here, never from their modules: this is the
one place behind which a compiled implementation can stand. They import `headers` and `subjects` as modules.
This package imports nothing of jetspark but `errors`.
"""

from jetspark.wire import encode
from jetspark.wire.frames import (
    OK,
    PING,
    PONG,
    AnyFrame,
    ConnectFrame,
    ErrFrame,
    InfoFrame,
    MsgFrame,
    OkFrame,
    PingFrame,
    PongFrame,
    PubFrame,
    SubFrame,
    UnsubFrame,
)
from jetspark.wire.parser import MAX_CONTROL_LINE, MAX_PAYLOAD, Parser

__all__ = [
    "MAX_CONTROL_LINE",
    "MAX_PAYLOAD",
    "OK",
    "PING",
    "PONG",
    "AnyFrame",
    "ConnectFrame",
    "ErrFrame",
    "InfoFrame",
    "MsgFrame",
    "OkFrame",
    "Parser",
    "PingFrame",
    "PongFrame",
    "PubFrame",
    "SubFrame",
    "UnsubFrame",
    "encode",
]
