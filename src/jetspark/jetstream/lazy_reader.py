"""A reader that asks the server for nothing until it is used. Base of `Messages` and of watches."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

__all__ = ["LazyReader"]


class LazyReader:
    """Starts when its context is entered or at the first read, and stops when the context is left.

    A subclass implements `_open` and `stop`, calls `_start` before it reads, and sets `_started` in `stop`,
    so that a stopped reader does not start again.
    """

    _started = False

    def stop(self) -> Awaitable[None]:
        """End it."""
        raise NotImplementedError

    async def _open(self) -> None:
        """Begin to read from the server. Called again if it raises."""
        raise NotImplementedError

    async def _start(self) -> None:
        if self._started:
            return
        self._started = True
        try:
            await self._open()
        except BaseException:
            self._started = False
            raise

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
