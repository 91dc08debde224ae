"""Standard input for coroutines. A thread reads it, so that the event loop keeps serving the connection.

The thread is a daemon: a read that never returns must not keep the process alive.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final, cast

__all__ = ["chunks", "lines", "whole"]

_CHUNK: Final = 256 * 1024
#: The largest message that a server can be configured to accept. A longer line is cut there.
_LONGEST: Final = 64 * 1024 * 1024


async def chunks() -> AsyncIterator[bytes]:
    """Bytes as they arrive, up to the end of the input."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=4)
    source = cast("io.BufferedReader", sys.stdin.buffer)

    def read() -> None:
        try:
            while data := source.read1(_CHUNK):
                asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
        except (OSError, ValueError):
            pass  # Standard input was closed.
        except RuntimeError:
            return  # The event loop is closed, and with it the reader of the queue.
        asyncio.run_coroutine_threadsafe(arrived.put(None), loop)

    threading.Thread(target=read, name="jetspark-stdin", daemon=True).start()
    while (data := await arrived.get()) is not None:
        yield data


async def lines() -> AsyncIterator[bytes]:
    """Lines without their line ends. The last line may lack one."""
    rest = b""
    async for data in chunks():
        *complete, rest = (rest + data).split(b"\n")
        for line in complete:
            yield line.removesuffix(b"\r")
        if len(rest) > _LONGEST:
            yield rest
            rest = b""
    if rest:
        yield rest


async def whole() -> bytes:
    """The whole input, up to slightly more than any server accepts."""
    taken: list[bytes] = []
    size = 0
    async for data in chunks():
        taken.append(data)
        size += len(data)
        if size > _LONGEST:
            break
    return b"".join(taken)
