"""Where the lines of the demo come from: simulated hosts, or files of the user's.

A simulated host writes an access log as a busy web server does, rotates it, and knows what it wrote. Every
line has an id in its query string, `host-number`, so that lines can be told apart later.
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
from typing import Final, Protocol

from jetspark.errors import UsageError
from jetspark.logs.agent.discovery import COMPRESSED
from jetspark.logs.agent.options import MAX_LINE
from jetspark.logs.agent.split import split_lines

__all__ = ["Host", "LogSource", "OwnFiles", "access_line", "poison_line"]

_PATHS: Final = (
    "/",
    "/login",
    "/search",
    "/cart",
    "/checkout",
    "/item/{n}",
    "/static/app.js",
    "/api/v1/orders",
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
#: One line of so many is none.
_POISON: Final = 2000
#: Seconds between two writes.
_TICK: Final = 0.05


def access_line(chance: random.Random, host: str, number: int, now: datetime) -> str:
    """A line of format `combined`."""
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
    """What is no line of an access log: a worker that died while it wrote one."""
    return f"worker {number} of {host} exited on signal 11 id={host}-{number}"


class LogSource(Protocol):
    """Lines of one host."""

    name: str
    #: How many there are until now.
    written: int

    @property
    def ship(self) -> Sequence[str]:
        """What `jetspark ship` is told to ship."""

    def start(self) -> None:
        """Begin to write."""

    def stop(self) -> None:
        """Write no more."""


class OwnFiles:
    """Files of the user's, as they are now. Raises `UsageError` when there are none."""

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
            raise UsageError(f"no file is {' or '.join(patterns)}", hint="Compressed ones are left out")
        # Counted as an agent does it: a line that is too long is several.
        contents = (Path(path).read_bytes() for path in found)
        self.written = sum(len(split_lines(data, 0, MAX_LINE, final=True)[0]) for data in contents)
        if not self.written:
            raise UsageError(f"there is no line in {' and '.join(patterns)}")

    def start(self) -> None:
        """They are there."""

    def stop(self) -> None:
        """They stay as they are."""


class Host:
    """One simulated host with its log, which a thread writes."""

    def __init__(self, name: str, directory: Path, *, rate: float, rotate_after: int, seed: str) -> None:
        self.name = name
        self.directory = directory
        # The log, and those that were rotated away.
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

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        log = self.directory / "access.log"
        while not self._stop.wait(_TICK):
            with log.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self._lines())
            if self.written >= (self._rotations + 1) * self._rotate_after:
                self._rotations += 1
                log.rename(self.directory / f"access.log.{self._rotations}")

    def _lines(self) -> list[str]:
        now = datetime.now(UTC)
        lines = []
        for _ in range(max(1, round(self._rate * _TICK * self._chance.uniform(0.5, 1.5)))):
            self.written += 1
            if self.written % _POISON == 137:
                self.poison += 1
                lines.append(poison_line(self.name, self.written))
            else:
                lines.append(access_line(self._chance, self.name, self.written, now))
        return lines
