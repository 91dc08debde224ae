"""Agents of the demo: `jetspark ship` as a process for each host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from jetspark.shipper.demo.hosts import Host

__all__ = ["Agent", "Start", "ship"]


class Agent(Protocol):
    """Something that ships the lines of a host until it is stopped."""

    def stop(self) -> None:
        """End it."""


#: Starts the agent of a host: its log, where it keeps positions, the server.
Start: TypeAlias = Callable[[Host, Path, str], Agent]


class _Process:
    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    def stop(self) -> None:
        """End it as an operator would, and in the end as nobody should."""
        self._popen.terminate()
        try:
            self._popen.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(timeout=10)


def ship(host: Host, positions: Path, url: str) -> Agent:
    """The agent of a host."""
    log = (positions.parent / f"agent-{host.name}.log").open("ab")
    with log:
        return _Process(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "jetspark", "ship", "--host", host.name),
                    *("--positions", str(positions), "--server", url, host.glob),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        )
