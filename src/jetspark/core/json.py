"""Reads JSON from outside: from a server, or from any client that publishes in its place.

Every such document is decoded here. Whatever its bytes are, the result is a value of the expected type or a
`RemoteProtocolError` about this one document.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from jetspark.errors import RemoteProtocolError

__all__ = ["decode_json"]

T = TypeVar("T")


def decode_json(data: bytes, kind: type[T], what: str) -> T:
    """The value in `data`. Raises `RemoteProtocolError` if it is not `what`, such as `a JSON object`."""
    try:
        return msgspec.json.decode(data, type=kind)
    # Besides its own errors, msgspec raises UnicodeDecodeError, RecursionError for deep nesting, and others.
    except Exception as error:
        raise RemoteProtocolError(f"not {what}: {data[:80]!r} ({error})") from error
