"""Programs that start more processes: all that came of one are a session, so that none is overlooked."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from jetspark.server.guard import Guarded
from tests.support.waiting import wait_until

__all__ = ["Program"]


def _members(session: int) -> list[int]:
    """The processes of a session that still run."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if _session_of(entry) == session]


def _session_of(entry: Path) -> int:
    if not entry.name.isdigit():
        return 0
    try:
        state, _, _, session = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state == b"Z" else int(session)


class Program:
    """A program in a session of its own, that ends with this process at the latest. It writes to `log`."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self._log = log
        settings = [f"{name}={value}" for name, value in environment.items()]
        self._guarded = Guarded(["env", *settings, *command], directory=str(log.parent), log=str(log))
        self._session = self._guarded.pid

    def said(self) -> str:
        """What it wrote."""
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        """Fail, with what it wrote, when it ended by itself."""
        assert self._guarded.running, f"it ended: {self.said()[-4000:]}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and to what it started; not to what made itself independent."""
        with suppress(ProcessLookupError):
            os.killpg(self._session, number)

    def kill(self) -> None:
        """SIGKILL, in the same way."""
        self.signal(signal.SIGKILL)
        self._guarded.end(0)

    def members(self) -> list[int]:
        """What still runs of it and of what it started."""
        return _members(self._session)

    def close(self) -> None:
        """Kill it and see to it that nothing is left; what does not end by itself fails the test."""
        self.kill()
        try:
            wait_until(lambda: not self.members(), f"all that {self._log.stem} started to end", 60)
        finally:
            for process in self.members():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
