"""Commands of `jetspark` as processes, which end with this one: the agents and the Spark job of the demo."""

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

#: Seconds that one may take to end when it is told to.
_GRACE: Final = 120.0
#: Bytes at the end of what it said in which the last record is.
_TAIL: Final = 16 * 1024


class Command:
    """`jetspark ... --json` as a process. What it tells and what it complains of goes to `log`."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log
        # Nothing of the user's own settings, which are for other servers.
        foreign = [part for name in os.environ if name.startswith("NATS_") for part in ("-u", name)]
        settings = [*foreign, f"XDG_CONFIG_HOME={os.devnull}"]
        command = ["env", *settings, sys.executable, "-m", "jetspark", *arguments, "--json"]
        self._guarded = Guarded(command, directory="", log=str(log))

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self._guarded.returncode not in (None, 0)

    @property
    def last(self) -> dict[str, Any] | None:
        """The latest record of it, or of one before it with the same log."""
        records = [line for line in self._said() if line.startswith("{")]
        return json.loads(records[-1]) if records else None

    @property
    def complaint(self) -> str:
        """The last that it said about itself."""
        remarks = [line for line in self._said() if line and not line.startswith("{")]
        return remarks[-1] if remarks else "it said nothing"

    def kill(self) -> None:
        """Kill it and all that it started, as a machine that loses its power does."""
        with suppress(ProcessLookupError):
            os.killpg(self._guarded.pid, signal.SIGKILL)
        self._guarded.end(0)

    def stop(self) -> None:
        """Let it finish what it does, and end."""
        self._guarded.end(_GRACE)

    def _said(self) -> list[str]:
        """The last lines that are whole."""
        with self._log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            return file.read().decode(errors="replace").split("\n")[:-1]
