"""The header blocks of published messages. Every block that is published is built here.

`header_block` encodes a mapping. The other functions are for code that publishes many messages whose blocks
differ in a few values: it builds them without a mapping per message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jetspark.wire.headers import HeadersLike, encode_headers

__all__ = ["COMMON", "add_lines", "block_pieces", "extend_block", "header_block", "header_lines"]

#: The headers of every published message. A header that all messages should carry is one line here.
COMMON: Final[Mapping[str, str]] = {}

_COMMON_LINES: Final = encode_headers(COMMON).removeprefix(b"NATS/1.0").removesuffix(b"\r\n\r\n")
_START: Final = b"NATS/1.0\r\n"
_END: Final = b"\r\n\r\n"


def header_block(headers: HeadersLike | None) -> bytes:
    """The block of a message with these headers; empty for a message without any.

    Raises `UsageError` for a name or value that would break out of its line.
    """
    if not headers:
        return encode_headers(COMMON) if COMMON else b""
    return _with_common(encode_headers(headers))


def block_pieces(headers: Mapping[str, str], *open_names: str) -> tuple[bytes, ...]:
    """The block of these headers, cut after the value of each of `open_names`, in their order.

    Text that is put between the pieces continues these values. It is not checked. Raises `UsageError` as
    `header_block` does.
    """
    pieces = []
    lines: dict[str, str] = {}
    start = 0
    for name, value in headers.items():
        lines[name] = value
        if name in open_names:
            cut = len(encode_headers(lines)) - len(_END)
            pieces.append(encode_headers(lines)[start:cut])
            start = cut
    return *pieces, _with_common(encode_headers(lines))[start:]


def extend_block(block: bytes, headers: HeadersLike) -> bytes:
    """A block with these headers after its own. Raises `UsageError` as `header_block` does."""
    return add_lines(block, header_lines(headers))


def header_lines(headers: HeadersLike) -> bytes:
    """The lines of these headers, for `add_lines`. Raises `UsageError` as `header_block` does."""
    return encode_headers(headers)[len(_START) : -2]


def add_lines(block: bytes, lines: bytes) -> bytes:
    """A block, which may be empty, with these lines after its own."""
    return b"%b%b\r\n" % (block[:-2] or _START, lines)


def _with_common(block: bytes) -> bytes:
    return block[: -len(_END)] + _COMMON_LINES + _END if COMMON else block
