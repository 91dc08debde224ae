"""The Spark job of the demo, as a process that can be killed: `jetspark pipeline run`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

__all__ = ["JobProcess", "write_config"]

_CONFIG: Final = """\
name = "demo"
checkpoint = "checkpoint"
trigger = "1 second"

[source]
servers = "{url}"
stream = "{logs}"

[parse]
format = "combined"

[sink]
format = "parquet"
path = "table"

[dead_letters]
subject = "{dead_subject}"

[spark]
master = "local[2]"
log = "spark.log"
"""


def write_config(place: Path, *, url: str, logs: str, dead_subject: str) -> Path:
    """The file of the job."""
    file = place / "pipeline.toml"
    file.write_text(_CONFIG.format(url=url, logs=logs, dead_subject=dead_subject))
    return file


class JobProcess:
    """One run of the job. What it tells is read by a thread; `last` is the latest."""

    def __init__(self, config: Path) -> None:
        self.last: dict[str, Any] | None = None
        self._errors = config.parent / "job.log"
        with self._errors.open("ab") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "jetspark", "pipeline", "run", str(config), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # so that Java can be killed with it
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

    def kill(self) -> None:
        """Kill it and all that it started, as a machine that loses its power does."""
        os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait(timeout=30)
        self._reader.join(timeout=30)

    def stop(self) -> None:
        """Let it finish its batch, and end."""
        if self.running:
            self._popen.terminate()
        try:
            self._popen.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=30)

    def complaint(self) -> str:
        """What it said before it ended by itself."""
        lines = self._errors.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"
