"""The log sources of the demo: simulated hosts, or files of the user.

A simulated host writes and rotates an access log like a busy web server, and counts its lines. Every line has
a unique id in its query string, `host-number`.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import random
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jetspark.errors import UsageError
from jetspark.logs.agent.input import COMPRESSED
from jetspark.logs.agent.options import MAX_LINE
from jetspark.logs.agent.split import split_lines

__all__ = ["Host", "LogSource", "OwnFiles", "access_line", "poison_line"]

_PATHS: Final = (
    *("/", "/login", "/search", "/cart", "/checkout", "/item/{n}", "/static/app.js", "/api/v1/orders"),
)
_PATH_WEIGHTS: Final = (20, 5, 15, 8, 4, 30, 12, 6)
_STATUSES: Final = (200, 301, 304, 404, 403, 500, 503)
_STATUS_WEIGHTS: Final = (820, 30, 80, 40, 8, 15, 7)
_AGENTS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
    "curl/8.5.0",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
)
#: One line in this many does not parse.
_POISON: Final = 2000
#: Seconds between two writes.
_TICK: Final = 0.05


def access_line(chance: random.Random, host: str, number: int, now: datetime) -> str:
    path = chance.choices(_PATHS, _PATH_WEIGHTS)[0].format(n=chance.randint(1, 5000))
    status = chance.choices(_STATUSES, _STATUS_WEIGHTS)[0]
    method = "POST" if path in ("/login", "/checkout") else "GET"
    size = 0 if status == 304 else int(chance.lognormvariate(7, 1.2))
    address = f"198.51.100.{chance.randint(1, 254)}"
    return (
        f'{address} - - [{now:%d/%b/%Y:%H:%M:%S} +0000] "{method} {path}?id={host}-{number} HTTP/1.1" '
        f'{status} {size} "-" "{chance.choice(_AGENTS)}"'
    )


def poison_line(host: str, number: int) -> str:
    """A line that is not in the format: the error of a worker process."""
    return f"worker {number} of {host} exited on signal 11 id={host}-{number}"


class LogSource:
    """Lines of one host."""

    name: str
    #: The number of lines so far.
    written: int
    #: The arguments of `jetspark ship`.
    ship: Sequence[str]
    #: Whether it can wait until Spark works.
    can_wait = False

    def write_one(self, *, parses: bool) -> None:
        """Write one line before `start`, one that parses or one that does not."""

    def start(self) -> None:
        """Start writing."""

    def stop(self) -> None:
        """Stop writing."""


class OwnFiles(LogSource):
    """Existing files of the user. Raises `UsageError` if there are none."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.name = "local"
        self.ship = ("--once", *patterns)
        found = {
            os.path.realpath(path)
            for pattern in patterns
            for path in glob.iglob(pattern, recursive=True, include_hidden=True)
            if os.path.isfile(path) and not any(fnmatch.fnmatch(path, each) for each in COMPRESSED)
        }
        if not found:
            raise UsageError(f"no file matches {' or '.join(patterns)}", hint="Compressed files are skipped")
        # Counted like the agent does: a long line is cut into several.
        contents = (Path(path).read_bytes() for path in found)
        self.written = sum(len(split_lines(data, 0, MAX_LINE, final=True)[0]) for data in contents)
        if not self.written:
            raise UsageError(f"no lines in {' and '.join(patterns)}")


class Host(LogSource):
    """A simulated host; a thread writes its log."""

    can_wait = True

    def __init__(self, name: str, directory: Path, *, rate: float, rotate_after: int, seed: str) -> None:
        self.name = name
        self.directory = directory
        # The log and its rotated files.
        self.ship = (str(directory / "access.log*"),)
        self.written = 0
        self.poison = 0
        self._rate = rate
        self._rotate_after = rotate_after
        self._chance = random.Random(seed)
        self._rotations = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        directory.mkdir(parents=True, exist_ok=True)

    def write_one(self, *, parses: bool) -> None:
        self._append([self._line(parses=parses)])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.wait(_TICK):
            number = max(1, round(self._rate * _TICK * self._chance.uniform(0.5, 1.5)))
            self._append([self._line(parses=self.written % _POISON != 136) for _ in range(number)])
            if self.written >= (self._rotations + 1) * self._rotate_after:
                self._rotations += 1
                self._log.rename(self.directory / f"access.log.{self._rotations}")

    @property
    def _log(self) -> Path:
        return self.directory / "access.log"

    def _append(self, lines: Sequence[str]) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def _line(self, *, parses: bool) -> str:
        self.written += 1
        if parses:
            return access_line(self._chance, self.name, self.written, datetime.now(UTC))
        self.poison += 1
        return poison_line(self.name, self.written)
