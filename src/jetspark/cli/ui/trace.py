"""`--trace`: the protocol on stderr, one line per frame, with credentials masked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from jetspark import wire
from jetspark.cli.ui import log
from jetspark.cli.ui.escape import escape_line
from jetspark.core.transport import Transport
from jetspark.errors import RemoteProtocolError

__all__ = ["show_protocol"]

#: Bytes of a payload that are shown.
_SHOWN: Final = 200
_SECRET: Final = ("pass", "auth_token", "jwt", "sig")


@contextmanager
def show_protocol() -> Iterator[None]:
    """Show what connections opened in this context send and receive."""
    Transport.tap = _Tracer
    try:
        yield
    finally:
        Transport.tap = None


class _Tracer:
    """Prints the frames of one transport."""

    def __init__(self) -> None:
        self._sent = wire.Parser(peer="client")
        self._received = wire.Parser(peer="server")

    def __call__(self, sent: bool, data: bytes) -> None:
        try:
            # What is sent may be of a class of its own, which the compiled parser refuses.
            frames = (self._sent if sent else self._received).feed(bytes(data))
        except RemoteProtocolError as error:
            _write("!!!", str(error))
            return
        for frame in frames:
            _write(">>>" if sent else "<<<", _describe(frame))


def _write(direction: str, line: str) -> None:
    if log.is_json():
        log.write("debug", f"{direction} {line}")
    else:
        sys.stderr.write(f"{direction} {escape_line(line)}\n")


def _describe(frame: wire.AnyFrame) -> str:
    match frame:
        case wire.MsgFrame():
            return _message(f"MSG {_text(frame.subject)} {_text(frame.sid)}", frame)
        case wire.PubFrame():
            return _message(f"PUB {_text(frame.subject)}", frame)
        case wire.SubFrame():
            queue = f" {_text(frame.queue)}" if frame.queue else ""
            return f"SUB {_text(frame.subject)}{queue} {_text(frame.sid)}"
        case wire.UnsubFrame():
            return f"UNSUB {_text(frame.sid)}" + (f" {frame.max_msgs}" if frame.max_msgs else "")
        case wire.InfoFrame():
            return f"INFO {_text(frame.json)}"
        case wire.ConnectFrame():
            return f"CONNECT {_masked(frame.json)}"
        case wire.ErrFrame():
            return f"-ERR {frame.message!r}"
        case wire.PingFrame():
            return "PING"
        case wire.PongFrame():
            return "PONG"
        case wire.OkFrame():
            return "+OK"


def _message(start: str, frame: wire.MsgFrame | wire.PubFrame) -> str:
    reply = f" {_text(frame.reply)}" if frame.reply else ""
    header = f" {_text(frame.header)}" if frame.header else ""
    cut = "..." if len(frame.data) > _SHOWN else ""
    return f"{start}{reply} {len(frame.header) + len(frame.data)}{header} {_text(frame.data[:_SHOWN])}{cut}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _masked(connect: bytes) -> str:
    """The JSON of a CONNECT with its secrets masked."""
    fields = msgspec.json.decode(connect, type=dict[str, object])
    return msgspec.json.encode(
        {name: "***" if name in _SECRET and value else value for name, value in fields.items()}
    ).decode()
