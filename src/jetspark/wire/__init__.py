"""Bytes to frames and frames to bytes. No asyncio, no sockets, no clock.

In reading order:

- `frames`: the frames of the NATS protocol, as plain data.
- `parser`: bytes to frames.
- `encode`: frames to bytes.
- `bulk`: operations on many frames at once.
- `queue`: the frames that wait to be written.
- `compiled`: the twin of the hot parts of these five, in Cython.
- `headers`: the header block of a message, and the mapping that users see.
- `websocket`: the frames of WebSocket, which may carry all others.
- `subjects`: which subjects and names are valid, and which subjects match a pattern.

Other packages import the parser, the frames and the encoders from here, never from their modules: this is the
one place that chooses between Python and its compiled twin. `JETSPARK_PURE=1` in the environment chooses
Python. They import `headers`, `subjects` and `websocket` as modules. This package imports only `errors` of
jetspark.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jetspark.wire import encode
from jetspark.wire.frames import (
    OK,
    PING,
    PONG,
    AnyFrame,
    ConnectFrame,
    ErrFrame,
    InfoFrame,
    OkFrame,
    PingFrame,
    PongFrame,
    PubFrame,
    SubFrame,
    UnsubFrame,
)
from jetspark.wire.parser import MAX_CONTROL_LINE, MAX_PAYLOAD

#: Whether the compiled twin is used. It is missing after an installation without a C compiler.
COMPILED: bool = (
    os.environ.get("JETSPARK_PURE", "0") in ("", "0") and find_spec("jetspark.wire.compiled") is not None
)

if TYPE_CHECKING or not COMPILED:
    from jetspark.wire.bulk import (
        acks,
        arrow_columns,
        by_subscription,
        header_column,
        pub_acks,
        redeliveries,
        replies_start_with,
        total_size,
    )
    from jetspark.wire.encode import hpub, hpub_numbered, pub
    from jetspark.wire.frames import MsgFrame
    from jetspark.wire.parser import Parser
    from jetspark.wire.queue import FrameQueue
else:
    try:
        from jetspark.wire.compiled import (
            FrameQueue,
            MsgFrame,
            Parser,
            acks,
            arrow_columns,
            by_subscription,
            header_column,
            hpub,
            hpub_numbered,
            pub,
            pub_acks,
            redeliveries,
            replies_start_with,
            total_size,
        )
    except ImportError as error:
        raise ImportError(
            "the compiled part of jetspark is older than the rest. Install jetspark again: make install"
        ) from error

__all__ = [
    "COMPILED",
    "MAX_CONTROL_LINE",
    "MAX_PAYLOAD",
    "OK",
    "PING",
    "PONG",
    "AnyFrame",
    "ConnectFrame",
    "ErrFrame",
    "FrameQueue",
    "InfoFrame",
    "MsgFrame",
    "OkFrame",
    "Parser",
    "PingFrame",
    "PongFrame",
    "PubFrame",
    "SubFrame",
    "UnsubFrame",
    "acks",
    "arrow_columns",
    "by_subscription",
    "encode",
    "header_column",
    "hpub",
    "hpub_numbered",
    "pub",
    "pub_acks",
    "redeliveries",
    "replies_start_with",
    "total_size",
]
