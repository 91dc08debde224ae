"""Standard input for commands: as it arrives, by line, or whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from jetspark.errors import Error
from jetspark.stdin import Arrived, read_stdin

__all__ = ["chunks", "lines", "whole"]

#: The largest message that a server can be configured to accept. A longer line is cut there.
_LONGEST: Final = 64 * 1024 * 1024


async def chunks() -> AsyncIterator[bytes]:
    """Bytes as they arrive, up to the end of the input. Raises `Error` if reading fails."""
    arrived: Arrived = asyncio.Queue(maxsize=4)
    read_stdin(arrived)
    while data := await arrived.get():
        if isinstance(data, Error):
            raise data
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
