"""Commands of `jetspark` as processes: the agents and the Spark job of the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

__all__ = ["Command"]

#: Seconds that one may take to end when it is told to.
_GRACE: Final = 120.0
_JOIN: Final = 30.0


class Command:
    """`jetspark ... --json` as a process. A thread reads what it tells; `last` is the latest."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.last: dict[str, Any] | None = None
        self._log = log
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "jetspark", *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
                start_new_session=True,  # so that what it starts, such as Java, can be killed with it
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # One that is killed may leave a part of a line.
                    self.last = json.loads(line)

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self._popen.poll() not in (None, 0)

    def kill(self) -> None:
        """Kill it and all that it started, as a machine that loses its power does."""
        if self.running:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait(timeout=_JOIN)
        self._reader.join(timeout=_JOIN)

    def stop(self) -> None:
        """Let it finish what it does, and end."""
        if self.running:
            self._popen.terminate()
        try:
            self._popen.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=_JOIN)

    def complaint(self) -> str:
        """The last that it said when something went wrong."""
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


def _environment() -> dict[str, str]:
    """Ours, without what says how to reach servers of the user's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    return environment | {"XDG_CONFIG_HOME": os.devnull}  # where natscli keeps contexts
