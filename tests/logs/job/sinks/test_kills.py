"""Tables while agents, server, Spark and compactions are killed: each line once, and no part of a batch seen.

`make test THOROUGH=1 ARGS="tests/logs/job/sinks/test_kills.py -s"` kills each of them ten times;
`JETSPARK_TEST_KILLS` is another number.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pytest
from deltalake import DeltaTable
from pyarrow import compute
from pyiceberg.table import StaticTable

from jetspark import blocking
from jetspark.logs.demo.hosts import Host
from jetspark.logs.demo.pipeline import DEAD_LETTERS
from tests.logs.job.support import Supervised
from tests.support.effort import effort
from tests.support.waiting import wait_until

#: Seconds; Spark takes some to start, and on a busy machine many.
SLOW = float(effort(600, 1800))
KILLS = int(os.environ.get("JETSPARK_TEST_KILLS") or effort(1, 10))


class Kind:
    """A table as its readers see it."""

    def __init__(self, format: str, path: Path) -> None:
        self.format, self._path = format, str(path)

    def read(self, column: str) -> pyarrow.ChunkedArray:
        """A column of the newest version."""
        if self.format == "delta":
            return DeltaTable(self._path).to_pyarrow_table(columns=[column])[column]
        return StaticTable.from_metadata(self._path).scan(selected_fields=(column,)).to_arrow()[column]

    def exists(self) -> bool:
        place = Path(self._path)
        return (place / "_delta_log/00000000000000000001.json").exists() or (
            place / "metadata/version-hint.text"
        ).exists()

    def has_batch(self, owner: str, batch: int) -> bool:
        done: int | str | None
        if self.format == "delta":
            done = DeltaTable(self._path).transaction_version(owner)
        else:
            done = StaticTable.from_metadata(self._path).properties.get(f"jetspark.batch.{owner}")
        return int(-1 if done is None else done) >= batch


class Version(NamedTuple):
    """The stream sequences of the rows that a reader saw at once."""

    rows: int
    distinct: int
    total: int
    last: int


class Poller(threading.Thread):
    """Reads the table again and again, and notes where Spark's batches end."""

    def __init__(self, kind: Kind, checkpoint: Path) -> None:
        super().__init__(name="reader", daemon=True)
        self._kind, self._checkpoint = kind, checkpoint
        self.versions: set[Version] = set()
        #: The last sequence of each batch.
        self.ends: dict[int, int] = {}
        self.polls = 0
        #: Versions that a compaction deleted while they were read.
        self.deleted = 0
        self.failed: BaseException | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self.stopping.wait(0.2):
                self.poll()
        except BaseException as error:
            self.failed = error

    def poll(self) -> None:
        for file in (self._checkpoint / "offsets").glob("[0-9]*"):
            if int(file.name) not in self.ends and (found := re.findall(r'"next_seq":\s*(\d+)', _text(file))):
                self.ends[int(file.name)] = int(found[-1]) - 1
        if not self._kind.exists():
            return
        try:
            sequences = self._kind.read("sequence")
        except (FileNotFoundError, OSError) as error:
            if not re.search("(?i)not found|no such file", str(error)):
                raise
            self.deleted += 1
            return
        self.polls += 1
        if len(sequences):
            self.versions.add(
                Version(
                    len(sequences),
                    compute.count_distinct(sequences).as_py(),
                    compute.sum(sequences).as_py(),
                    compute.max(sequences).as_py(),
                )
            )

    def partial(self) -> list[Version]:
        """The versions that were not made of whole batches. Call it when the table is complete."""
        rows = sorted(self._kind.read("sequence").to_pylist())
        whole: set[Version] = set()
        ends = sorted(self.ends.values())
        count = total = 0
        for end in ends:
            while count < len(rows) and rows[count] <= end:
                total += rows[count]
                count += 1
            if count:
                whole.add(Version(count, count, total, rows[count - 1]))
        return sorted(self.versions - whole)


class Compactions(threading.Thread):
    """Compacts the table again and again; one in three is killed on its way."""

    def __init__(self, kind: Kind, config: Path, log: Path, chance: random.Random) -> None:
        super().__init__(name="compactions", daemon=True)
        self._kind = kind
        self._config, self._log, self._chance = config, log, chance
        self.stopping = threading.Event()
        self.killed = 0
        self.ended: list[int] = []

    def run(self) -> None:
        wait_until(lambda: self.stopping.is_set() or self._kind.exists(), "the table", SLOW)
        while not self.stopping.wait(self._chance.uniform(1, 10)):
            keep = self._chance.choice(("0s", "1h"))
            command = [sys.executable, "-m", "jetspark", "pipeline", "compact", str(self._config)]
            with self._log.open("ab") as log:
                running = subprocess.Popen([*command, "--keep", keep, "--json"], stdout=log, stderr=log)
            try:
                running.wait(self._chance.uniform(1, 6) if self._chance.random() < 1 / 3 else SLOW)
                self.ended.append(running.returncode)
            except subprocess.TimeoutExpired:
                self.killed += 1
            finally:
                running.kill()
                running.wait()


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:  # Spark removes those of old batches.
        return ""


def phase(kind: Kind, pipeline: Supervised) -> str:
    """What the job did when it was killed."""
    checkpoint = pipeline.place / "checkpoint/rows"
    owner = json.loads((checkpoint / "metadata").read_text())["id"]
    planned, done = (
        max((int(file.name) for file in (checkpoint / name).glob("[0-9]*")), default=-1)
        for name in ("offsets", "commits")
    )
    if planned == done:
        return "between batches"
    if kind.has_batch(owner, planned):
        return "after its commit"
    return "with files" if list(pipeline.table.glob(f"data/{owner}/{planned}-*")) else "before its files"


def ids(texts: Iterable[str]) -> Counter[str]:
    return Counter(found[1] for text in texts if (found := re.search(r"\bid=([\w-]+)", text)))


@pytest.mark.faults
@pytest.mark.timeout(6 * SLOW)
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_each_line_is_in_the_table_once_and_readers_see_whole_batches_whatever_is_killed(
    tmp_path: Path, format: str
) -> None:
    seed = os.environ.get("JETSPARK_TEST_SEED") or str(random.randrange(1 << 30))
    print(f"JETSPARK_TEST_SEED={seed}")
    chance = random.Random(seed)
    hosts = [
        Host(name, tmp_path / "hosts" / name, rate=50, rotate_after=400, seed=seed + name)
        for name in ("web1", "web2")
    ]
    victims = ["agent", "server", "job"] * KILLS
    chance.shuffle(victims)
    phases: Counter[str] = Counter()
    began = time.monotonic()
    with ExitStack() as contexts:
        pipeline = contexts.enter_context(Supervised(tmp_path / "pipeline", hosts, table_format=format))
        pipeline.start(print, lambda sample: None, timeout=SLOW)
        kind = Kind(format, pipeline.table)
        poller = Poller(kind, pipeline.place / "checkpoint/rows")
        compactions = Compactions(kind, pipeline.config, pipeline.place / "compact.log", random.Random(seed))
        stack = contexts.enter_context(ExitStack())
        for thread in (poller, compactions):
            stack.callback(thread.join, SLOW)
            stack.callback(thread.stopping.set)
            thread.start()
        wait_until(kind.exists, "the table", SLOW)
        for victim in victims:
            within = 3.0
            if victim == "job":  # One that starts has nothing to lose.
                done = pipeline.last.processed
                wait_until(partial(lambda done: pipeline.sample().processed > done, done), "rows", SLOW)
                assert pipeline.job is not None
                within = max(within, min(30.0, (pipeline.job.last or {}).get("seconds", 0.0)))
            time.sleep(chance.random() * within)
            if victim == "agent":
                pipeline.kill_agent(chance.randrange(len(hosts)))
            elif victim == "server":
                pipeline.kill_server()
            else:
                assert pipeline.job is not None
                pipeline.job.kill()
                phases[phase(kind, pipeline)] += 1
                pipeline.kill_job()
        pipeline.finish(lambda sample: None, timeout=SLOW)
        stack.close()
        poller.poll()
        with blocking.connect(pipeline.server.url) as connection:
            stream = connection.jetstream().get_stream(DEAD_LETTERS)
            count = stream.info().state.messages
            letters = [stream.get_message(number).data.decode() for number in range(1, count + 1)]
    found = ids(kind.read("path").to_pylist()) + ids(letters)
    written = {f"{host.name}-{number}" for host in hosts for number in range(1, host.written + 1)}
    figures = {
        "format": format,
        "seconds": round(time.monotonic() - began),
        "kills": dict(Counter(victims)),
        "phases": dict(phases),
        "failures of Spark": len(pipeline.failures),
        "lines": len(written),
        "batches": len(poller.ends),
        "polls": poller.polls,
        "versions": len(poller.versions),
        "versions deleted while read": poller.deleted,
        "compactions": dict(Counter(compactions.ended)),
        "compactions killed": compactions.killed,
        "lost": len(written - set(found)),
        "doubled": sum(count > 1 for count in found.values()),
        "unexpected": len(set(found) - written),
        "partial": len(poller.partial()),
    }
    print(json.dumps(figures))
    assert poller.failed is None, poller.failed
    assert [figures[each] for each in ("lost", "doubled", "unexpected", "partial")] == [0] * 4, figures
    assert set(compactions.ended) <= {0}, (pipeline.place / "compact.log").read_text()[-2000:]
    assert len(poller.versions) > 1
