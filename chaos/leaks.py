"""What must not be left over when all workloads have ended: tasks, threads, sockets, consumers."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Set
from contextlib import suppress

from chaos.site import STREAM, Site
from jetspark import Error

__all__ = ["LEAVE", "Surroundings", "left_consumers"]

#: Seconds in which everything must be gone.
LEAVE = 10.0
#: An `inactive_threshold` that short, in seconds, is as good as a deletion.
_SOON = 10.0
#: The threads of `asyncio.to_thread`, which the cell itself uses.
_POOL = "asyncio_"


class Surroundings:
    """The tasks, threads and sockets of this process at one moment."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._threads = set(threading.enumerate())
        self._sockets = _sockets()

    async def left(self, within: float) -> list[str]:
        """What came since then and does not go, one sentence each."""
        deadline = time.monotonic() + within
        while found := self._more():
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
            gc.collect()
        return found

    def _more(self) -> list[str]:
        tasks = [task.get_name() + f" {task.get_coro()!r}" for task in asyncio.all_tasks() - self._tasks]
        threads = [
            thread.name
            for thread in set(threading.enumerate()) - self._threads
            if not thread.name.startswith(_POOL)
        ]
        sockets = len(_sockets()) - len(self._sockets)
        found = [f"leak: task {name}" for name in tasks] + [f"leak: thread {name}" for name in threads]
        return found + ([f"leak: {sockets} sockets"] if sockets > 0 else [])


def _sockets() -> list[str]:
    """Sockets and pipes among the file descriptors; none where there is no /proc."""
    found = []
    with suppress(FileNotFoundError):
        for descriptor in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{descriptor}")
                if target.startswith(("socket:", "pipe:")):
                    found.append(target)
    return found


async def left_consumers(site: Site, expected: Set[str], within: float) -> list[str]:
    """Consumers of the stream that are not `expected` and do not go.

    Those that the server deletes by itself after a few seconds are no leak. After an outage that takes it
    up to a minute (cnaStart in nats-server).
    """
    deadline = time.monotonic() + within
    left: set[str] = set()
    while True:
        with suppress(Error):
            left = {
                info.name
                async for info in site.js.consumers(STREAM)
                if info.name not in expected and not 0 < (info.config.inactive_threshold or 0) <= _SOON
            }
            if not left:
                return []
        if time.monotonic() > deadline:
            return [f"leak: consumer {name}" for name in sorted(left)]
        await asyncio.sleep(0.1)
