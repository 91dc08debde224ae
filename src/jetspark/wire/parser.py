"""Bytes to frames: `Parser.feed(data)` returns every frame that is complete.

The contract: any split of the input gives the same frames; for any input the only exception is
`RemoteProtocolError`; at most one unfinished frame is kept, and a frame that announces more than the limits
is refused before its bytes arrive. Frames received together with an error are returned first; the error is
in `Parser.error` then, and every later `feed` raises it: close the connection.

This is the hottest loop of the client. It passes over the received bytes once, without an object per step:
find the end of the control line, split it, slice the payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from jetspark.errors import RemoteProtocolError
from jetspark.wire import frames
from jetspark.wire.frames import AnyFrame, MsgFrame, PubFrame

__all__ = ["MAX_CONTROL_LINE", "MAX_PAYLOAD", "Parser", "control", "refused"]

#: The server's own limit is 4096 by default; INFO, which lists the whole cluster, may be longer.
MAX_CONTROL_LINE: Final = 64 * 1024
#: The largest `max_payload` that a nats-server can be configured to is 64 MiB; headers count in.
MAX_PAYLOAD: Final = 64 * 1024 * 1024

#: How many sizes are cached, by their digits.
_MAX_SIZES: Final = 4096
#: Most digits of a size. The largest size has 8.
_DIGITS: Final = 18
#: Received pieces are joined until they have this many bytes: an object for each of a few bytes would need
#: fifty times their memory.
_PIECE: Final = 1024


class Parser:
    """An incremental parser for one direction of one connection.

    `peer` is the sender of the bytes: a "server" sends MSG, HMSG, INFO, +OK and -ERR, a "client" sends PUB,
    HPUB, SUB, UNSUB and CONNECT; both send PING and PONG. A frame of the wrong direction is an error.
    """

    __slots__ = (
        "_chunks",
        "_from_server",
        "_have",
        "_max_control_line",
        "_max_payload",
        "_need",
        "_sizes",
        "error",
    )

    def __init__(
        self,
        peer: Literal["server", "client"] = "server",
        *,
        max_control_line: int = MAX_CONTROL_LINE,
        max_payload: int = MAX_PAYLOAD,
    ) -> None:
        self._from_server = peer == "server"
        self._max_control_line = max_control_line
        self._max_payload = max_payload
        self._sizes: dict[bytes, int] = {}
        # An unfinished frame, in the pieces received. Large ones are joined only when `_need` bytes are
        # there, so that a large payload in many reads is copied once and not once per read.
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0
        #: Why the input was refused. Look at it after `feed`, which raises it only when it has no frames.
        self.error: RemoteProtocolError | None = None

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return self._have

    def feed(self, data: bytes) -> list[AnyFrame]:
        """Parse received bytes and return the frames that they complete.

        Raises `RemoteProtocolError` when the input is not the NATS protocol or exceeds a limit; when frames
        were complete before that, it returns them, sets `error`, and raises it when called again.
        """
        if self.error is not None:
            raise self.error
        if self._chunks:
            if len(self._chunks[-1]) < _PIECE:
                self._chunks[-1] += data
            else:
                self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._have = 0
        self._need = 0
        complete: list[AnyFrame] = []
        try:
            pos = self._parse(data, complete.append)
        except RemoteProtocolError as error:
            self.error = error
            if complete:
                return complete
            raise
        if pos < len(data):
            self._chunks.append(data[pos:])
            self._have = len(data) - pos
        return complete

    def _parse(self, data: bytes, append: Callable[[AnyFrame], None]) -> int:
        """Append each complete frame of `data`; return where the first incomplete one starts."""
        find = data.find
        from_server = self._from_server
        plain_op, headers_op = (b"MSG", b"HMSG") if from_server else (b"PUB", b"HPUB")
        max_control_line = self._max_control_line
        sizes = self._sizes
        total = len(data)
        pos = 0
        while pos < total:
            # Searching for one byte is much cheaper than for two, and a line contains no other CR.
            end = find(b"\r", pos)
            # No end yet, or the first half of one.
            if end < 0 or end + 1 == total:
                if (end if end >= 0 else total) - pos > max_control_line:
                    raise refused(f"a control line of more than {max_control_line} bytes", data[pos:])
                break
            if end - pos > max_control_line:
                raise refused(f"a control line of more than {max_control_line} bytes", data[pos:end])
            if data[end + 1] != 10:
                raise refused("a control line with a bare CR", data[pos:end])
            fields = data[pos:end].split(b" ")
            op = fields[0]
            start = body = end + 2
            if op == plain_op:
                pass
            elif op == headers_op and len(fields) > 1:
                header_size = fields.pop(-2)
                if not header_size.isdigit() or len(header_size) > _DIGITS:
                    raise refused("a header size that is not a number", data[pos:end])
                body = start + int(header_size)
            else:
                append(control(data[pos:end], from_server))
                pos = start
                continue

            size = sizes.get(fields[-1])
            if size is None:
                size = self._size(fields[-1], data[pos:end])
            stop = start + size
            if body > stop:
                raise refused("a header larger than its message", data[pos:end])
            if stop + 2 > total:
                self._need = stop + 2 - pos
                break
            if data[stop] != 13 or data[stop + 1] != 10:
                raise refused("a message that does not end where its size says", data[pos:end])

            header = data[start:body] if body != start else b""
            count = len(fields)
            if from_server:
                if count == 5:
                    _, subject, sid, reply, _ = fields
                elif count == 4:
                    _, subject, sid, _ = fields
                    reply = b""
                else:
                    raise refused("a message with the wrong number of fields", data[pos:end])
                append(MsgFrame(sid, subject, reply, header, data[body:stop]))
            elif 3 <= count <= 4:
                append(PubFrame(fields[1], fields[2] if count == 4 else b"", header, data[body:stop]))
            else:
                raise refused("a message with the wrong number of fields", data[pos:end])
            pos = stop + 2
        return pos

    def _size(self, digits: bytes, line: bytes) -> int:
        """The size of a message, cached: sizes repeat, and a lookup is cheaper than parsing."""
        if not digits.isdigit() or len(digits) > _DIGITS:
            raise refused("a message size that is not a number", line)
        size = int(digits)
        if size > self._max_payload:
            raise refused(f"a message of more than {self._max_payload} bytes", line)
        if len(self._sizes) >= _MAX_SIZES:
            self._sizes.clear()
        self._sizes[digits] = size
        return size


def control(line: bytes, from_server: bool) -> AnyFrame:
    """The frame of a control line without a payload. Raises `RemoteProtocolError`."""
    if line == b"PING":
        return frames.PING
    if line == b"PONG":
        return frames.PONG
    op, _, rest = line.partition(b" ")
    if from_server:
        if line == b"+OK":
            return frames.OK
        if op == b"INFO":
            return frames.InfoFrame(rest.strip())
        if op == b"-ERR":
            return frames.ErrFrame(
                rest.strip().removeprefix(b"'").removesuffix(b"'").decode(errors="replace")
            )
    elif op == b"CONNECT":
        return frames.ConnectFrame(rest.strip())
    else:
        match line.split(b" "):
            case [b"SUB", subject, sid]:
                return frames.SubFrame(sid, subject, b"")
            case [b"SUB", subject, queue, sid]:
                return frames.SubFrame(sid, subject, queue)
            case [b"UNSUB", sid]:
                return frames.UnsubFrame(sid, 0)
            case [b"UNSUB", sid, max_msgs] if max_msgs.isdigit() and len(max_msgs) <= 20:
                return frames.UnsubFrame(sid, int(max_msgs))
    raise refused("an unknown operation", line)


def refused(what: str, line: bytes) -> RemoteProtocolError:
    """The error for a control line that is not the NATS protocol, or exceeds a limit."""
    return RemoteProtocolError(
        f"the peer sent {what}: {line[:64]!r}", hint="Is this the port of a NATS server?"
    )
