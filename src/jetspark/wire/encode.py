"""Frames to bytes. The caller has checked the arguments, with `subjects.py` and `headers.py`."""

from __future__ import annotations

from typing import Final

__all__ = ["PING", "PONG", "connect", "err", "hpub", "hpub_numbered", "info", "msg", "pub", "sub", "unsub"]

# The ends of control lines: a lookup is cheaper than formatting the number, which matters when publishing.
_SIZES: Final = tuple(b" %d\r\n" % size for size in range(4096))

PING = b"PING\r\n"
PONG = b"PONG\r\n"


def pub(subject: bytes, reply: bytes, data: bytes) -> bytes:
    """PUB; an empty `reply` means none."""
    if reply:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(data), data)
    size = len(data)
    end = _SIZES[size] if size < 4096 else b" %d\r\n" % size
    return b"".join((b"PUB ", subject, end, data, b"\r\n"))


def hpub(subject: bytes, reply: bytes, header: bytes, data: bytes) -> bytes:
    """HPUB; `header` is a whole header block."""
    size = len(header)
    space = b" " if reply else b""
    return b"HPUB %b %b%b%d %d\r\n%b%b\r\n" % (subject, reply, space, size, size + len(data), header, data)


def hpub_numbered(  # noqa: PLR0917 - keywords cost a tenth of the rate
    subject: bytes, reply: bytes, number: int, block_start: bytes, block_end: bytes, data: bytes
) -> bytes:
    """HPUB of a message whose number, 0 or more, ends its reply and stands in its header block."""
    token = b"%d" % number
    return hpub(subject, reply + token, b"%b%b%b" % (block_start, token, block_end), data)


def sub(subject: bytes, queue: bytes, sid: bytes) -> bytes:
    """SUB; an empty `queue` means none."""
    if queue:
        return b"SUB %b %b %b\r\n" % (subject, queue, sid)
    return b"SUB %b %b\r\n" % (subject, sid)


def unsub(sid: bytes, max_msgs: int = 0) -> bytes:
    """UNSUB, at once or after `max_msgs` messages since the SUB."""
    return b"UNSUB %b %d\r\n" % (sid, max_msgs) if max_msgs else b"UNSUB %b\r\n" % sid


def connect(json: bytes) -> bytes:
    """CONNECT with the client's JSON."""
    return b"CONNECT %b\r\n" % json


def info(json: bytes) -> bytes:
    """INFO with the server's JSON."""
    return b"INFO %b\r\n" % json


def err(message: str) -> bytes:
    """-ERR with its text."""
    return b"-ERR '%b'\r\n" % message.encode()


def msg(sid: bytes, subject: bytes, reply: bytes, header: bytes, data: bytes) -> bytes:
    """MSG, or HMSG when there is a header block."""
    reply = b" " + reply if reply else b""
    if header:
        size = len(header)
        return b"HMSG %b %b%b %d %d\r\n%b%b\r\n" % (subject, sid, reply, size, size + len(data), header, data)
    return b"MSG %b %b%b %d\r\n%b\r\n" % (subject, sid, reply, len(data), data)
