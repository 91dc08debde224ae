"""WebSocket (RFC 6455), the client's side: the upgrade request and its answer, and binary frames.

No I/O and no chance: the caller passes keys and masks. Only what NATS uses: no extensions, and so no
compression, and no text. The payload of a data frame is handed on as it arrives, so that a frame of any
length needs no buffer.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from jetspark.errors import AuthorizationError, RemoteProtocolError

__all__ = [
    "BINARY",
    "CLOSE",
    "PING",
    "PONG",
    "Control",
    "Decoder",
    "encode_frame",
    "read_answer",
    "upgrade_request",
]

_CONTINUATION: Final = 0x0
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_MASKED: Final = 0x80
#: The longest payload of a control frame.
_MOST_CONTROL: Final = 125
#: The longest answer to the upgrade request.
_MOST_ANSWER: Final = 64 * 1024
#: RFC 6455, 1.3.
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


# --- the upgrade


def upgrade_request(host: str, path: str, key: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """The HTTP request; `key` is 16 random bytes, `host` the value of the Host header."""
    lines = [
        f"GET {path or '/'} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(key).decode()}",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def read_answer(data: bytes, key: bytes) -> int | None:
    """The length of the complete and correct answer that `data` begins with; None if more is needed.

    Raises `AuthorizationError` for the statuses 401 and 403, and `RemoteProtocolError`.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > _MOST_ANSWER or (data and not b"HTTP/1.1 ".startswith(data[:9])):
            raise RemoteProtocolError(
                f"the answer to the WebSocket upgrade is not HTTP: {_shown(data)}",
                hint="Is this the WebSocket port of a NATS server?",
            )
        return None
    first, *lines = data[:end].split(b"\r\n")
    status = first.split(b" ", 2)
    if len(status) < 2 or status[0] != b"HTTP/1.1" or status[1] != b"101":
        if len(status) > 1 and status[1] in (b"401", b"403"):
            raise AuthorizationError(
                f"the WebSocket upgrade was refused: {_shown(first)}", hint="Check websocket_headers"
            )
        raise RemoteProtocolError(
            f"the server did not upgrade to WebSocket: {_shown(first)}",
            hint="Is this the WebSocket port of a NATS server?",
        )
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    expected = base64.b64encode(hashlib.sha1(base64.b64encode(key) + _GUID, usedforsecurity=False).digest())
    if (
        fields.get(b"upgrade", b"").lower() != b"websocket"
        or b"upgrade" not in fields.get(b"connection", b"").lower()
        or fields.get(b"sec-websocket-accept") != expected
        or fields.get(b"sec-websocket-extensions")
    ):
        raise RemoteProtocolError("the server's answer to the WebSocket upgrade is not valid")
    return end + 4


def _shown(line: bytes) -> str:
    return repr(line[:100].decode("ascii", "backslashreplace"))


# --- frames


def encode_frame(opcode: int, data: bytes, mask: bytes) -> bytes:
    """A whole frame; `mask` is four random bytes."""
    size = len(data)
    if size < 126:
        head = bytes((_FINAL | opcode, _MASKED | size))
    elif size < 0x10000:
        head = bytes((_FINAL | opcode, _MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, _MASKED | 127)) + size.to_bytes(8, "big")
    # As numbers: one operation for all bytes.
    pattern = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")
    return b"%b%b%b" % (head, mask, masked.to_bytes(size, "little"))


class Control(NamedTuple):
    """A control frame: PING, PONG or CLOSE, and its payload."""

    opcode: int
    data: bytes


class Decoder:
    """Takes the frames of a server apart, in any split of the input."""

    def __init__(self) -> None:
        #: A head, or a control frame, of which more is needed.
        self._partial = b""
        #: Bytes of the current data frame that have not arrived.
        self._left = 0
        #: Whether a message has begun whose last frame did not arrive.
        self._open = False

    def feed(self, data: bytes) -> tuple[bytes, list[Control]]:
        """The payload of data frames, joined, and the control frames. Raises `RemoteProtocolError`."""
        if self._left > len(data):
            self._left -= len(data)
            return data, []
        payload, at = [data[: self._left]], self._left
        controls: list[Control] = []
        self._left = 0
        if self._partial:
            data, at = self._partial + data[at:], 0
            self._partial = b""
        while at < len(data):
            head = self._head(data, at)
            if head is None:
                self._partial = data[at:]
                break
            opcode, begin, size = head
            if opcode >= CLOSE:
                if len(data) < begin + size:
                    self._partial = data[at:]
                    break
                controls.append(Control(opcode, data[begin : begin + size]))
            else:
                payload.append(data[begin : begin + size])
                self._open = not data[at] & _FINAL
                self._left = max(begin + size - len(data), 0)
            at = begin + size
        return b"".join(payload), controls

    def _head(self, data: bytes, at: int) -> tuple[int, int, int] | None:
        """The opcode of the frame at `at`, and where its payload begins, and its length; None if cut off."""
        if len(data) - at < 2:
            return None
        first, second = data[at], data[at + 1]
        opcode, size = first & 0x0F, second & 0x7F
        if first & _RESERVED or second & _MASKED:
            raise RemoteProtocolError("the server sent a WebSocket frame that is masked or uses an extension")
        if opcode >= CLOSE:
            if opcode > PONG or size > _MOST_CONTROL or not first & _FINAL:
                raise RemoteProtocolError("the server sent an invalid WebSocket control frame")
        elif opcode != (_CONTINUATION if self._open else BINARY):
            raise RemoteProtocolError(f"the server sent a WebSocket frame of the unexpected kind {opcode}")
        begin = at + 2
        if size > 125:
            width = 2 if size == 126 else 8
            begin += width
            if len(data) < begin:
                return None
            size = int.from_bytes(data[at + 2 : begin], "big")
        return opcode, begin, size
