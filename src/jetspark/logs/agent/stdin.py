"""Standard input as lines. What was read of it and is not stored is lost with the agent."""

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
from jetspark.logs.agent.split import Line, split_lines

__all__ = ["StandardInput"]

_CHUNK: Final = 256 * 1024


class StandardInput:
    """The lines that another program writes to us; `limit` says at how many bytes they are cut."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        #: Of this run alone: another one reads something else.
        self.identity = f"stdin-{secrets.token_hex(8)}"
        self._arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=4)

    def close(self) -> None:
        """Wait for no more. When something has arrived already, whoever reads it is not waiting."""
        with suppress(asyncio.QueueFull):
            self._arrived.put_nowait(b"")

    async def pieces(self) -> AsyncIterator[list[Line]]:
        """Lines as they come; the last one may lack its end. Raises `Error` when it cannot be read."""
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
        """Read in a thread, a daemon: a read that never returns must keep no agent that was told to end."""
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
                    data = b""  # It was closed by this program.
                try:
                    asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
                except RuntimeError:
                    return  # The loop is gone, and with it who wanted it.

        threading.Thread(target=read, name="jetspark-stdin", daemon=True).start()
        while data := await arrived.get():
            if isinstance(data, OSError):
                raise Error(f"standard input cannot be read: {data.strerror}") from data
            yield data


def _reader() -> Callable[[int], bytes]:
    """Reads the descriptor itself: the interpreter cannot end while a thread waits in its buffer."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # It is something that only looks like a file.
        return cast("io.BufferedReader", sys.stdin.buffer).read1

    def read(size: int) -> bytes:
        while True:
            try:
                return os.read(descriptor, size)
            except BlockingIOError:  # Somebody who shares it does not want to wait; we do.
                select.select([descriptor], [], [])

    return read
