"""A child process that cannot outlive this one, even when this one is killed. Knows nothing of NATS.

A shell forks a watcher and then becomes the program, so the program keeps the process id that was
returned, is a direct child and has its own exit code. The watcher reads from a pipe that this process
holds. A line means that the program has ended; end of file means that this process has ended. Then the
watcher kills the program and removes its private directory.

Why not PR_SET_PDEATHSIG: it fires when the thread that forked ends, and needs code between fork and exec.
Why the process id is safe: the watcher is in the program's process group, and the kernel does not reuse
the number of a group that has a member.
"""

from __future__ import annotations

import os
import signal
import subprocess
import weakref
from contextlib import suppress

__all__ = ["Guarded"]

_SCRIPT = """
directory=$1; shift
exec 3<&0 </dev/null
{ read -r _ || { kill -9 $$; sleep 1; rm -rf "$directory"; }; } <&3 >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""


class Guarded:
    """A running program, in its own session: Ctrl-C in a terminal reaches only this process."""

    def __init__(self, command: list[str], *, directory: str, log: str) -> None:
        """Start `command`; append its output to `log`. `directory` is removed when this process ends."""
        self._owner = os.getpid()
        reader, self._pipe = os.pipe()  # not inheritable, so that no other child keeps it open
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT, "jetspark-guard", directory, *command],
                    stdin=reader,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            finally:
                os.close(out)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reader)
        _guarded.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. Does nothing when the program has ended."""
        self._process.send_signal(number)

    def suspend(self) -> None:
        """Send SIGSTOP, and return when the program stands still: its threads run on for a moment."""
        self.signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # Not on macOS.
            with suppress(ChildProcessError):  # It has ended.
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def end(self, timeout: float) -> None:
        """Send SIGTERM, and SIGKILL after `timeout` seconds; with 0 send SIGKILL at once.

        Does nothing in a forked child: the program belongs to its parent.
        """
        if self._owner != os.getpid():
            return
        if timeout > 0:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)  # a stopped process does not handle SIGTERM
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._release()

    def _release(self) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, b"\n")
            except BrokenPipeError:
                pass  # the watcher was killed
            self.forget()

    def forget(self) -> None:
        """Close this end of the pipe without writing to it."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


_guarded: weakref.WeakSet[Guarded] = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child has a copy of every pipe, and would keep the programs alive after this process.
    for guarded in list(_guarded):
        guarded.forget()


os.register_at_fork(after_in_child=_after_fork)
