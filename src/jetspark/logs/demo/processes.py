"""`jetspark` commands as child processes that end with this one: the agents and the Spark job of the demo."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jetspark.server.guard import Guarded

__all__ = ["Command"]

#: Seconds that a process may take to end after a signal.
_GRACE: Final = 120.0
#: Bytes at the end of the log that contain the last record.
_TAIL: Final = 16 * 1024


class Command:
    """`jetspark ... --json` as a process. Its records and messages go to the file `log`."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log
        # Without the user's settings, which are for other servers.
        foreign = [part for name in os.environ if name.startswith("NATS_") for part in ("-u", name)]
        settings = [*foreign, f"XDG_CONFIG_HOME={os.devnull}"]
        command = ["env", *settings, sys.executable, "-m", "jetspark", *arguments, "--json"]
        self._guarded = Guarded(command, directory="", log=str(log))

    @property
    def failed(self) -> bool:
        return self._guarded.returncode not in (None, 0)

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
