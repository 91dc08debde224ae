"""One agent that ships a file, compared with the publisher that it is built on and with a raw socket."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import CPU, RATE, Contender, Measurement, Sample, Stopwatch
from jetspark import StreamConfig

WINDOW: Final = 4096
SUBJECT: Final = "logs.0.bench"


class Bed:
    """A file of lines, and an empty stream for every run."""

    def __init__(
        self,
        server: jetspark.server.Server,
        js: jetspark.blocking.JetStream,
        directory: Path,
        lines: int,
        size: int,
    ) -> None:
        self.server = server
        self.directory = directory
        self.payload = b"x" * size
        self._js = js
        self.file = directory / "bench.log"
        with self.file.open("wb") as file:
            for number in range(lines):
                file.write((b"%07d " % number).ljust(size, b"x") + b"\n")

    @contextmanager
    def stream(self, count: int) -> Iterator[None]:
        """An empty stream, which must hold every line at the end."""
        stream = self._js.create_stream(StreamConfig(name="BENCH", subjects=["logs.>"]))
        try:
            yield
            stored = stream.info().state.messages
            if stored != count:
                raise RuntimeError(f"{stored} messages are stored, not {count}")
        finally:
            self._js.delete_stream("BENCH")


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with (
        jetspark.server.run() as server,
        jetspark.blocking.connect(server.url) as nc,
        tempfile.TemporaryDirectory() as directory,
    ):
        yield Bed(server, nc.jetstream(timeout=30), Path(directory), count, size)


def ship(url: str, file: Path, positions: Path) -> tuple[dict[str, int], float]:
    """Run the agent once. Returns its report, and the CPU seconds of its process."""
    command = [sys.executable, "-m", "jetspark", "ship", str(file), "--once", "--json", "--metrics", "0"]
    before = _children()
    output = subprocess.run(
        [*command, "--host", "bench", "--positions", str(positions)],
        env={**os.environ, "NATS_URL": url},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    report: dict[str, int] = json.loads(output)
    return report, _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def agent(bed: Bed, count: int) -> Sample:
    """The whole process, as users run it."""
    positions = bed.directory / "positions.json"
    positions.unlink(missing_ok=True)
    with bed.stream(count):
        with Stopwatch() as watch:
            report, cpu = ship(bed.server.url, bed.file, positions)
        if report["lines"] != count or report["duplicates"]:
            raise RuntimeError(f"the agent reports {report}")
    return {**watch.sample(count), "cpu": cpu / count * 1e6}


async def publisher(bed: Bed, count: int) -> Sample:
    with bed.stream(count):
        async with jetspark.connect(bed.server.url) as nc:
            with Stopwatch() as watch:
                async with nc.jetstream().publisher(WINDOW) as publisher:
                    for _ in range(count):
                        await publisher.send(SUBJECT, bed.payload)
    return watch.sample(count)


def raw_ids(bed: Bed, count: int) -> Sample:
    with bed.stream(count), Stopwatch() as watch:
        raw.publish_acknowledged(bed.server.port, SUBJECT, bed.payload, count, WINDOW, message_ids=True)
    return watch.sample(count)


SHIP: Final = Measurement(
    name="ship",
    title="Shipping",
    text=f"""
    One `jetspark ship --once` process, with its start: it reads a file, splits it into lines, publishes
    them and stores its position. It is compared with the publisher of the library and with a raw socket
    that publishes with ids. Each has {WINDOW:,} messages in flight and writes to a stream on disk.
    """,
    bed=bed,
    contenders=(
        Contender("jetspark ship, one process", agent, "jetspark"),
        Contender("jetspark, await send()", publisher, "jetspark"),
        Contender("raw socket, ids", raw_ids, "raw socket"),
    ),
    count=300_000,
    quick=1_000,
    rounds=3,
    columns=(RATE, CPU),
    ceiling="raw socket, ids",
)
