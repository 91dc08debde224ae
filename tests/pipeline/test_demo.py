"""The parts of the demo: hosts that write and rotate, a plot, and books that notice what is wrong."""

from __future__ import annotations

import random
import re
import threading
import zlib
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from jetspark import blocking
from jetspark.shipper.demo.books import Books
from jetspark.shipper.demo.hosts import Host, access_line
from jetspark.shipper.demo.main import run_demo
from jetspark.shipper.demo.png import write_plot
from tests.pipeline.support import parsed
from tests.support.waiting import wait_until


class StandIn:
    """Ships whole lines of a host in a thread of the test; `jetspark ship` does that with more care."""

    def __init__(self, host: Host, _: Path, url: str) -> None:
        self._host = host
        self._url = url
        self._read: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        with blocking.connect(self._url) as connection, connection.jetstream().publisher() as publisher:
            while not self._stop.wait(0.1):
                for file in list(self._host.directory.glob("access.log*")):
                    for line in self._lines(file):
                        headers = {"Jetspark-Host": self._host.name, "Jetspark-File": file.name}
                        publisher.send(f"logs.0.{self._host.name}", line, headers=headers)

    def _lines(self, file: Path) -> list[bytes]:
        try:
            with file.open("rb") as opened:
                inode = file.stat().st_ino
                opened.seek(self._read.get(inode, 0))
                whole = opened.read().rpartition(b"\n")[0]
        except FileNotFoundError:  # It was rotated away in this moment, and has another name now.
            return []
        if not whole:
            return []
        self._read[inode] = self._read.get(inode, 0) + len(whole) + 1
        return whole.split(b"\n")


def test_hosts_write_lines_that_parse_and_rotate_their_logs(session: SparkSession, tmp_path: Path) -> None:
    host = Host("web1", tmp_path / "web1", rate=2000, rotate_after=300, seed=1)
    host.start()
    wait_until(lambda: len(list(host.directory.iterdir())) > 2, "rotation")
    host.stop()
    lines = [line for file in host.directory.glob("access.log*") for line in file.read_text().splitlines()]
    assert len(lines) == host.written
    ids = [found[1] for line in lines if (found := re.search(r"\bid=([\w-]+)", line))]
    assert len(set(ids)) == host.written
    rows = parsed(session, tmp_path, 'format = "combined"', lines[:1000])
    assert {row._reason for row in rows} <= {None, "not a line of format combined"}
    assert sum(row._reason is not None for row in rows) <= host.poison


def test_lines_are_the_same_with_the_same_seed() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    first, second = (access_line(random.Random(1), "web1", 1, now) for _ in range(2))
    assert first == second


def test_a_plot_is_a_png(tmp_path: Path) -> None:
    write_plot(tmp_path / "plot.png", [([(0, 0), (1, 10), (2, 5)], (255, 0, 0)), ([], (0, 0, 255))])
    data = (tmp_path / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    size = int.from_bytes(data[33:37])
    pixels = zlib.decompress(data[41 : 41 + size])
    assert len(pixels) == height * (1 + 3 * width)
    assert b"\xff\x00\x00" in pixels


def test_books_say_whether_they_balance() -> None:
    def books(**changed: int) -> Books:
        numbers = {"written": 10, "rows": 9, "dead_letters": 1, "duplicates": 0} | changed
        return Books(**numbers, hosts=(), statuses=())  # type: ignore[arg-type]

    assert books().balanced
    assert (books(rows=8).balanced, books(rows=8).lost) == (False, 1)
    assert (books(rows=10, duplicates=1).balanced, books(rows=10, duplicates=1).lost) == (False, 0)


def test_a_short_demo_ends_with_books_that_balance(session: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    books = run_demo(place, seconds=3, hosts=2, rate=200, kill=False, agent=StandIn, spark=session)
    assert books.balanced
    assert {host for host, _ in books.hosts} == {"web1", "web2"}
    assert books.written > 0
    assert (place / "throughput_and_lag.png").is_file()
