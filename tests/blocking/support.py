"""Helpers of the tests of the blocking API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from jetspark import blocking
from tests.support.waiting import wait_until

__all__ = ["TELL_WHEN_WAITING", "Program", "delete_when_pulled", "fill", "run_program"]

_LONG = 90.0  # seconds; only a hang takes this long


def fill(js: blocking.JetStream, stream: blocking.Stream, count: int) -> list[bytes]:
    """Store messages and return their payloads."""
    payloads = [b"%d" % number for number in range(count)]
    with js.publisher() as publisher:
        for payload in payloads:
            publisher.send(f"{stream.name}.x", payload)
    return payloads


def delete_when_pulled(consumer: blocking.Consumer) -> None:
    """Delete a consumer, in a thread, once a pull request waits for its messages."""

    def delete() -> None:
        wait_until(lambda: consumer.info().num_waiting > 0, "a pull request")
        consumer.delete()

    threading.Timer(0, delete).start()


#: Put before a program: prints a line when the main thread waits for something.
TELL_WHEN_WAITING = """
import sys, threading, time

def _watch(main, line):
    while sys._current_frames()[main].f_code.co_name not in ("wait", "join", "_wait_for_tstate_lock"):
        time.sleep(0.01)
    time.sleep(0.1)
    print(line, flush=True)

def tell_when_waiting(line):
    watching = threading.Thread(target=_watch, args=(threading.get_ident(), line), daemon=True)
    watching.start()
    return watching
"""


class Program:
    """A Python program in its own process, where warnings are errors."""

    def __init__(self, text: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", text, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # so that reading a line takes nothing from `finish`
            start_new_session=True,
        )

    def wait_for(self, line: str) -> None:
        """Wait until the program prints a line."""
        assert self._process.stdout is not None
        found = self._process.stdout.readline().decode().rstrip("\n")
        assert found == line, f"{found!r}, {self._process.communicate(timeout=_LONG)}"

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end; returns its exit code, stdout and stderr."""
        try:
            out, err = self._process.communicate(timeout=_LONG)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            out, err = self._process.communicate()
            raise AssertionError(f"the program hangs; it printed {out!r} and {err!r}") from None
        return self._process.returncode, out.decode(), err.decode()


def run_program(text: str, *arguments: str) -> str:
    """Run a program that must end by itself, without errors; returns its stdout."""
    code, out, err = Program(text, *arguments).finish()
    assert (code, err) == (0, ""), f"{code}: {out}{err}"
    return out
