"""What may be the payload of a message: bytes, and not more than the server takes."""

from __future__ import annotations

from jetspark.errors import MaxPayloadError, UsageError

__all__ = ["as_bytes", "too_large"]


def as_bytes(data: object) -> bytes:
    """A payload as bytes. Raises `UsageError` for what is no bytes-like object."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise UsageError(f"data must be bytes, not {type(data).__name__}", hint="Encode it: text.encode()")


def too_large(size: int, max_payload: int) -> MaxPayloadError:
    """What is raised for a message of `size` bytes, headers included, that the server does not take."""
    return MaxPayloadError(
        f"the message has {size} bytes, the server takes {max_payload}",
        hint="Split it, or raise max_payload in the server's configuration",
    )
