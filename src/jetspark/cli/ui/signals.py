"""Ctrl-C and SIGTERM. Every handler here acts in the main thread only; elsewhere Python allows none.

Most commands are cancelled and end with 130 or 143 (`cancelled_by_sigterm`; asyncio itself cancels at
Ctrl-C). Commands that run until they are stopped finish their work instead (`run_until_stopped`,
`stopped_by_signals`, `wait_for_signal`). Their handlers are in place before they print that they run: a
reader of that line may stop them at once.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, Final

import typer

from jetspark.cli.ui.failure import Exit

__all__ = ["cancelled_by_sigterm", "run_until_stopped", "stopped_by_signals", "wait_for_signal"]

#: The signals that stop a command, and the exit codes that stand for them.
_CODES: Final = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


async def cancelled_by_sigterm(work: Coroutine[Any, Any, None]) -> None:
    """Run a command that SIGTERM cancels, as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    watched = _in_main_thread()
    if watched:
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        await work
    except asyncio.CancelledError:
        if terminated:
            raise typer.Exit(Exit.TERMINATED) from None
        raise
    finally:
        if watched:
            loop.remove_signal_handler(signal.SIGTERM)


async def run_until_stopped(
    work: Coroutine[Any, Any, None],
    stop: Callable[[], None],
    *,
    around: AbstractContextManager[None],
    report: Callable[[float], None],
    interval: float | None,
) -> None:
    """Run `work` to its end; the first Ctrl-C or SIGTERM calls `stop`, the second one ends the process.

    `around` is entered once signals are handled, and left before the last report. `report` gets the seconds
    since the start: every `interval` seconds (10 by default, 0 is never), and at the end.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()

    async def report_often(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            report(time.monotonic() - began)

    def stop_once() -> None:
        restore()
        stop()

    def restore() -> None:
        for number in _CODES:
            loop.remove_signal_handler(number)

    if _in_main_thread():
        for number in _CODES:
            loop.add_signal_handler(number, stop_once)
    seconds = 10.0 if interval is None else interval
    reporting = asyncio.ensure_future(report_often(seconds)) if seconds > 0 else None
    try:
        with around:
            await work
    finally:
        work.close()
        if reporting is not None:
            reporting.cancel()
        if _in_main_thread():
            restore()
    report(time.monotonic() - began)


@contextmanager
def stopped_by_signals(stop: Callable[[], None], stop_now: Callable[[], None]) -> Iterator[list[Exit]]:
    """Call `stop` at the first signal and `stop_now` at the others, outside of asyncio.

    The list gets the exit code of each signal.
    """
    received: list[Exit] = []

    def handle(number: int, _: FrameType | None) -> None:
        (stop_now if received else stop)()
        received.append(_CODES[signal.Signals(number)])

    before = {number: signal.signal(number, handle) for number in _CODES}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for_signal(announce: Callable[[], None]) -> None:
    """Call `announce`, which prints that the command waits, and wait for Ctrl-C or SIGTERM."""
    over = threading.Event()
    with stopped_by_signals(over.set, over.set):
        announce()
        over.wait()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
