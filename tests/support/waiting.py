"""Polls, with a deadline, for conditions that cannot be awaited."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["process_gone", "wait_until"]


def wait_until(done: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    """Poll until `done`. Raises AssertionError with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline, f"after {timeout:g} seconds not yet: {what}"
        time.sleep(0.005)


def process_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
    except NotADirectoryError:  # no /proc
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
