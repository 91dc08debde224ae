"""`jetspark` commands as child processes that end with this one: agents, the Spark job and the console."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jetspark.errors import Error
from jetspark.server.guard import Guarded

__all__ = ["Command"]

#: Seconds that a process may take to end after a signal.
_GRACE: Final = 120.0
#: Seconds between two looks at a log.
_LOOK: Final = 0.1
#: Bytes at the end of the log that contain the last record.
_TAIL: Final = 16 * 1024


class Command:
    """`jetspark ...` as a process. Its messages go to the file `log`, and so do its records with `--json`."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log
        # Without the user's settings, which are for other servers.
        foreign = [part for name in os.environ if name.startswith("NATS_") for part in ("-u", name)]
        settings = [*foreign, f"XDG_CONFIG_HOME={os.devnull}"]
        command = ["env", *settings, sys.executable, "-m", "jetspark", *arguments]
        self._guarded = Guarded(command, directory="", log=str(log))

    @property
    def failed(self) -> bool:
        return self._guarded.returncode not in (None, 0)

    def wait_for(self, start: str, timeout: float) -> str:
        """The last line of the log that begins with `start`. Raises `Error` if it ends or takes too long."""
        deadline = time.monotonic() + timeout
        while not (found := [line for line in self._lines() if line.startswith(start)]):
            if self._guarded.returncode is not None or time.monotonic() > deadline:
                raise Error(self.last_message)
            time.sleep(_LOOK)
        return found[-1]

    @property
    def last(self) -> dict[str, Any] | None:
        """The latest record in the log."""
        records = [line for line in self._lines() if line.startswith("{")]
        return json.loads(records[-1]) if records else None

    @property
    def last_message(self) -> str:
        """The last line of the log that is not a record."""
        messages = [line for line in self._lines() if line and not line.startswith("{")]
        return messages[-1] if messages else "no message"

    def kill(self) -> None:
        """Kill it and its children, like a power failure."""
        with suppress(ProcessLookupError):
            os.killpg(self._guarded.pid, signal.SIGKILL)
        self._guarded.end(0)

    def stop(self) -> None:
        self._guarded.end(_GRACE)

    def _lines(self) -> list[str]:
        """The last complete lines of the log."""
        with self._log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            return file.read().decode(errors="replace").split("\n")[:-1]
