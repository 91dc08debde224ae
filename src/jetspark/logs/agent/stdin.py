"""Standard input as lines. Lines that are read but not stored are lost if the agent dies."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import select
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, cast

from jetspark.errors import Error
from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line

__all__ = ["StandardInput"]

_CHUNK: Final = 256 * 1024


class StandardInput:
    """Lines from standard input; `limit` returns the size in bytes at which they are cut."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        #: Unique to this run.
        self.identity = f"stdin-{secrets.token_hex(8)}"
        self._arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=4)

    def close(self) -> None:
        """Wake a waiting `pieces`. If the queue is full, `pieces` is not waiting."""
        with suppress(asyncio.QueueFull):
            self._arrived.put_nowait(b"")

    async def pieces(self) -> AsyncIterator[list[Line]]:
        """Lines as they arrive; the last one may lack its line feed. Raises `Error` if reading fails."""
        rest, offset = b"", 0
        async for data in self._chunks():
            rest += data
            lines, used = split_lines(rest, offset, self._limit())
            rest, offset = rest[used:], offset + used
            if lines:
                yield lines
        if rest:
            yield split_lines(rest, offset, self._limit(), final=True)[0]

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Read in a daemon thread: a read that never returns must not keep the process alive."""
        loop = asyncio.get_running_loop()
        arrived = self._arrived
        source = _reader()

        def read() -> None:
            data: bytes | OSError = b"-"
            while data and isinstance(data, bytes):
                try:
                    data = source(_CHUNK)
                except OSError as error:
                    data = error
                except ValueError:
                    data = b""  # Closed by this program.
                try:
                    asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
                except RuntimeError:
                    return  # The event loop has ended.

        threading.Thread(target=read, name="jetspark-stdin", daemon=True).start()
        while data := await arrived.get():
            if isinstance(data, OSError):
                raise Error(f"cannot read standard input: {data.strerror}") from data
            yield data


def _reader() -> Callable[[int], bytes]:
    """A function that reads the descriptor: the interpreter cannot exit while a thread holds the buffer."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # Not a real file, as in tests.
        return cast("io.BufferedReader", sys.stdin.buffer).read1

    def read(size: int) -> bytes:
        while True:
            try:
                return os.read(descriptor, size)
            except BlockingIOError:  # A process that shares the descriptor made it non-blocking.
                select.select([descriptor], [], [])

    return read
