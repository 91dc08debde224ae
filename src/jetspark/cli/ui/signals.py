"""Commands that run until they are told to end, and then end well: Ctrl-C and SIGTERM ask, exit code 0."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["every", "stopped_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM. The second one ends the process as it is."""
    loop = asyncio.get_running_loop()
    watched = threading.current_thread() is threading.main_thread()

    def first() -> None:
        restore()
        stop()

    def restore() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    if watched:
        for number in _SIGNALS:
            loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        if watched:
            restore()


@contextmanager
def every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again while the context lasts; never with 0 seconds."""

    async def work() -> None:
        while True:
            await asyncio.sleep(seconds)
            call()

    task = asyncio.ensure_future(work()) if seconds > 0 else None
    try:
        yield
    finally:
        if task is not None:
            with suppress(RuntimeError):  # The loop may be closed.
                task.cancel()
