"""Threads that write logs, in pieces and with rotations, and an agent that is killed meanwhile."""

from __future__ import annotations

import asyncio
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from jetspark import Stream
from tests.cli.support import Process
from tests.logs.support import stored
from tests.support.ledger import Ledger

#: Makes the next events of a writer: the bytes of their lines in the file, and each event with its name.
Script: TypeAlias = Callable[[random.Random, Callable[[], bytes]], tuple[bytes, dict[bytes, bytes]]]


class LogWriter(threading.Thread):
    """Writes events when it is told to, and renames its file now and then, also inside of an event."""

    def __init__(self, ledger: Ledger, name: str, path: Path, script: Script) -> None:
        super().__init__(name=name)
        self._ledger, self._path, self._script = ledger, path, script
        self._random = random.Random(f"{ledger.seed}-{name}")
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        #: The names of the events.
        self.names: dict[bytes, bytes] = {}

    def write(self, number: int) -> None:
        """Write so many times, soon."""
        for _ in range(number):
            self._orders.put(True)

    def finish(self) -> None:
        """Write what was ordered, and end."""
        self._orders.put(False)
        self.join()

    def run(self) -> None:
        rotation = 0
        while True:
            with self._path.open("ab", buffering=0) as file:
                for left in range(self._random.randrange(20, 120), -1, -1):
                    if not self._orders.get():
                        return
                    data, events = self._script(self._random, lambda: self._ledger.attempt(self.name))
                    self.names.update({event: name for name, event in events.items()})
                    cut = self._random.randrange(len(data))
                    file.write(data[:cut])  # A reader may see half of it.
                    if not left:
                        rotation += 1
                        self._path.rename(self._path.with_name(f"{self._path.name}.{rotation}"))
                    file.write(data[cut:])  # The writer has not noticed that its file was renamed.
                    if self._random.random() < 0.1:
                        time.sleep(0.01)


async def kill_again_and_again(
    start: Callable[[], Process], stream: Stream, ledger: Ledger, writers: Sequence[LogWriter], kills: int
) -> None:
    """Start an agent, and kill it while its logs are written; `kills` times. The writers end."""
    for writer in writers:
        writer.start()
    try:
        for _ in range(kills):
            for writer in writers:
                writer.write(ledger.random.randrange(40))  # Before it looks.
            running = start()
            try:
                assert running.line()
                before = (await stream.info()).state.messages
                for writer in writers:
                    writer.write(150)
                await stored(stream, before + ledger.random.randrange(1, 100))
                await asyncio.sleep(ledger.random.random() * 0.2)  # Any moment will do.
            finally:
                running.signal(signal.SIGKILL)
                running.end()
    finally:
        for writer in writers:
            writer.finish()
