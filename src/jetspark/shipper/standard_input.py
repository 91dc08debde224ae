"""Standard input as lines. What was read of it and is not stored is lost with the agent."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, cast

from jetspark.shipper.lines import Line, split_lines

__all__ = ["StandardInput"]

_CHUNK: Final = 256 * 1024


class StandardInput:
    """The lines that another program writes to us."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        #: Of this run alone: another one reads something else.
        self.identity = f"stdin-{secrets.token_hex(8)}"
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)

    def close(self) -> None:
        """Wait for no more. When something has arrived already, whoever reads it is not waiting."""
        with suppress(asyncio.QueueFull):
            self._arrived.put_nowait(b"")

    async def pieces(self) -> AsyncIterator[tuple[list[Line], int]]:
        """Lines as they come, with the bytes they took; the last one may lack its end."""
        rest, offset = b"", 0
        async for data in self._chunks():
            rest += data
            lines, used = split_lines(rest, offset, self._max_line)
            rest, offset = rest[used:], offset + used
            if lines:
                yield lines, used
        if rest:
            yield split_lines(rest, offset, self._max_line, final=True)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Read in a thread, a daemon: a read that never returns must keep no agent that was told to end."""
        loop = asyncio.get_running_loop()
        arrived = self._arrived
        source = _reader()

        def read() -> None:
            data = b"-"
            while data:
                try:
                    data = source(_CHUNK)
                except (OSError, ValueError):
                    data = b""  # It was closed.
                try:
                    asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
                except RuntimeError:
                    return  # The loop is gone, and with it who wanted it.

        threading.Thread(target=read, name="jetspark-stdin", daemon=True).start()
        while data := await arrived.get():
            yield data


def _reader() -> Callable[[int], bytes]:
    """Reads the descriptor itself: the interpreter cannot end while a thread waits in its buffer."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # It is something that only looks like a file.
        return cast("io.BufferedReader", sys.stdin.buffer).read1
    return lambda size: os.read(descriptor, size)
