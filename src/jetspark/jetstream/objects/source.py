"""The data of an object, from any source: in blocks, read and hashed in a thread.

Bytes, binary files, and iterables of bytes, plain or asynchronous. Bytes and files can be read again from
where they began.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import BinaryIO, Final, TypeAlias, cast

from jetspark.errors import UsageError

__all__ = ["ObjectData", "Source"]

#: The types that can be stored as an object.
ObjectData: TypeAlias = "bytes | bytearray | memoryview | BinaryIO | Iterable[bytes] | AsyncIterable[bytes]"

#: Bytes that are read and hashed at once.
_BLOCK: Final = 1024 * 1024
#: Smaller ones are hashed in the loop: a thread would take longer.
_SMALL: Final = 16 * 1024


class Source:
    """The blocks of some data, with their count and digest."""

    def __init__(self, data: ObjectData) -> None:
        if isinstance(data, str) or not (
            isinstance(data, bytes | bytearray | memoryview | AsyncIterable | Iterable)
            or hasattr(data, "read")
        ):
            raise UsageError(
                f"data must be bytes, a binary file or an iterable of bytes, not {type(data).__name__}",
                hint="Encode text first. put_file() takes a path",
            )
        self._data = data
        self._start: int | None = None
        if hasattr(data, "read") and getattr(data, "seekable", bool)():
            self._start = cast(BinaryIO, data).tell()
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> bytes:
        """The digest of the data read so far."""
        return self._hash.digest()

    def rewind(self) -> bool:
        """Begin again. False if that is not possible."""
        if self._start is not None:
            cast(BinaryIO, self._data).seek(self._start)
        elif not isinstance(self._data, bytes | bytearray | memoryview):
            return False
        self._hash = hashlib.sha256()
        self.size = 0
        return True

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        """The data in pieces of `size` bytes; the last one may be shorter."""
        rest = b""
        async for block in self._blocks():
            data = memoryview(rest + bytes(block) if rest else block)
            whole = len(data) - len(data) % size
            for start in range(0, whole, size):
                yield bytes(data[start : start + size])
            rest = bytes(data[whole:])
        if rest:
            yield rest

    async def _blocks(self) -> AsyncIterator[bytes | memoryview]:
        data = self._data
        if isinstance(data, bytes | bytearray | memoryview):
            view = memoryview(data).cast("B")
            for start in range(0, len(view), _BLOCK):
                yield await self._hashed(view[start : start + _BLOCK])
        elif hasattr(data, "read"):
            file = cast(BinaryIO, data)
            while block := await asyncio.to_thread(self._read, file):
                yield block
        elif isinstance(data, AsyncIterable):
            async for block in data:
                yield await self._hashed(_checked(block))
        else:
            blocks = iter(data)
            while (item := await asyncio.to_thread(_next, blocks)) is not None:
                yield await self._hashed(_checked(item))

    def _read(self, file: BinaryIO) -> bytes:
        block = _checked(file.read(_BLOCK))
        self._hash.update(block)
        self.size += len(block)
        return block

    async def _hashed(self, block: bytes | memoryview) -> bytes | memoryview:
        self.size += len(block)
        if len(block) < _SMALL:
            self._hash.update(block)
        else:
            await asyncio.to_thread(self._hash.update, block)
        return block


def _next(blocks: Iterator[bytes]) -> bytes | None:
    return next(blocks, None)


def _checked(block: object) -> bytes:
    if isinstance(block, bytes):
        return block
    if isinstance(block, bytearray | memoryview):
        return bytes(block)
    raise UsageError(
        f"data must be bytes, but {type(block).__name__} was read", hint="Open files in binary mode"
    )
