"""CPU time of processes, out of /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


class Usage:
    """CPU time of the JVM and of the Python processes: its descendants and this one.

    Spark starts and ends workers at any time, so each process is compared with itself. The time of workers
    that have ended is in the figures of their parents.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm = cpu_times(jvm)
        self._python = {pid: cpu_times(pid) for pid in [os.getpid(), *_descendants(jvm)]}

    def since(self, before: Usage) -> tuple[float, float]:
        """Seconds of the JVM and of Python between two samples."""
        python = sum(own - before._python.get(pid, (0, 0))[0] for pid, (own, _) in self._python.items())
        ended = sum(own for pid, (own, _) in before._python.items() if pid not in self._python)
        return self._jvm[0] - before._jvm[0], python + max(self._ended() - before._ended() - ended, 0.0)

    def _ended(self) -> float:
        return self._jvm[1] + sum(
            children for pid, (_, children) in self._python.items() if pid != os.getpid()
        )


def cpu_times(pid: int) -> tuple[float, float]:
    """The seconds of a process itself and of its ended children; zeros if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    user, system, children_user, children_system = map(int, fields[11:15])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + system) / tick, (children_user + children_system) / tick


def _descendants(pid: int) -> Iterator[int]:
    """All descendants of a process."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in map(int, children):
            yield child
            yield from _descendants(child)
