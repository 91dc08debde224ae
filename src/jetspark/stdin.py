"""Standard input for coroutines: a thread reads it, so that the event loop keeps serving the connection.

The thread is a daemon: a read that never returns must not keep the process alive.
"""

from __future__ import annotations

import asyncio
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final, TypeAlias, cast

from jetspark.errors import Error

__all__ = ["Arrived", "read_stdin"]

_CHUNK: Final = 256 * 1024

#: Data as it arrives; then nothing at the end of the input, or the error that ended it.
Arrived: TypeAlias = asyncio.Queue[bytes | Error]


def read_stdin(arrived: Arrived) -> None:
    """Start to read standard input into a queue. A full queue is waited for."""
    loop = asyncio.get_running_loop()
    source = _reader()

    def read() -> None:
        data: bytes | Error = b"-"
        while data and isinstance(data, bytes):
            try:
                data = source(_CHUNK)
            except OSError as error:
                data = Error(f"cannot read standard input: {error.strerror}")
                data.__cause__ = error
            except ValueError:
                data = b""  # Closed by this program.
            try:
                asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
            except (RuntimeError, CancelledError):
                return  # The event loop has ended.

    threading.Thread(target=read, name="jetspark-stdin", daemon=True).start()


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
