"""What a measurement is, and the loop that runs one: all contenders in turn, for several rounds."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import importlib.util
import inspect
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from bench.cpu import cpu_times

#: What one run of a contender gave, by the keys of the measurement's columns.
Sample: TypeAlias = dict[str, float]

#: The size of a message where nothing else is said, and all sizes.
SIZE: Final = 128
SIZES: Final = (16, SIZE, 1024, 8192, 65536)
#: Rounds at the other sizes, where there are more at `SIZE`.
ROUNDS_BY_SIZE: Final = 3
#: A slow contender moves at least this many messages, if there are so many.
FEWEST: Final = 1000


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do the work: `run(bed, count)` returns a sample, or a coroutine that does."""

    name: str
    run: Callable[[Any, int], Sample | Awaitable[Sample]]
    #: `jetspark`, `nats-py`, `natsrpy`, `raw socket` or another name; the plots colour by it.
    client: str
    #: The packages that it needs; it is left out without them.
    needs: tuple[str, ...] = ()
    #: A slow contender moves this many times fewer messages.
    fewer: int = 1
    uvloop: bool = False
    #: Whether it runs at every size of the measurement, or at `SIZE` only.
    every_size: bool = False

    @property
    def missing(self) -> list[str]:
        needed = (*self.needs, *(["uvloop"] if self.uvloop else []))
        return [name for name in needed if importlib.util.find_spec(name) is None]


def on_both_loops(contender: Contender) -> tuple[Contender, Contender]:
    """The contender on asyncio's own loop, and on uvloop."""
    return contender, dataclasses.replace(contender, name=f"{contender.name}, uvloop", uvloop=True)


@dataclasses.dataclass(frozen=True)
class Column:
    """A figure of every sample. `text` formats it."""

    key: str
    title: str
    text: str


RATE: Final = Column("rate", "messages/s", "{:,.0f}")
CPU: Final = Column("cpu", "client CPU, us/message", "{:.2f}")
SERVER_CPU: Final = Column("server", "server CPU, us/message", "{:.2f}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Contenders that do the same work, and how to show what they did."""

    name: str
    #: The heading on the page.
    title: str
    #: What is measured, in a few sentences.
    text: str
    contenders: Sequence[Contender]
    #: `bed(size, count)`: the server and its streams, as a context manager.
    bed: Callable[[int, int], AbstractContextManager[Any]]
    count: int
    #: The count of a quick run, which checks that everything works.
    quick: int
    sizes: Sequence[int] = (SIZE,)
    #: At large sizes, this many bytes limit the count.
    max_bytes: int = 128 << 20
    rounds: int = 5
    #: The first column is the main one, shown with its spread.
    columns: Sequence[Column] = (RATE, CPU)
    #: The contenders that the others are compared with in the table.
    peer: str = ""
    ceiling: str = ""

    def count_at(self, size: int, *, quick: bool) -> int:
        return min(self.quick if quick else self.count, self.max_bytes // size)


@dataclasses.dataclass
class Table:
    """All samples of a measurement at one size. `errors` names contenders that failed."""

    size: int
    count: int
    samples: dict[str, list[Sample]]
    errors: dict[str, str] = dataclasses.field(default_factory=dict)

    def values(self, contender: str, key: str) -> list[float]:
        return [sample[key] for sample in self.samples.get(contender, ()) if key in sample]

    def median(self, contender: str, key: str) -> float | None:
        values = self.values(contender, key)
        return statistics.median(values) if values else None


def measure(
    measurement: Measurement, *, rounds: int | None = None, quick: bool = False, say: Callable[[str], None]
) -> list[Table]:
    """Run every contender once per round, in turn, at every size."""
    tables = []
    others = [size for size in measurement.sizes if size != SIZE]
    for size in (SIZE, *(others[-1:] if quick else others)):
        contenders = [each for each in measurement.contenders if size == SIZE or each.every_size]
        absent = {each.name: ", ".join(each.missing) for each in contenders if each.missing}
        if absent and size == SIZE:
            say(f"{measurement.name}: left out, not installed: {absent}")
        contenders = [each for each in contenders if each.name not in absent]
        count = measurement.count_at(size, quick=quick)
        table = Table(size, count, {each.name: [] for each in contenders})
        with measurement.bed(size, count) as bed:
            wanted = rounds or (1 if quick else measurement.rounds)
            for number in range(wanted if size == SIZE else min(wanted, ROUNDS_BY_SIZE)):
                # Every other round runs backwards, so that no contender always follows the same one.
                for contender in contenders if number % 2 == 0 else reversed(contenders):
                    if contender.name not in table.errors:
                        _run(contender, bed, count, table, say)
        tables.append(table)
    return tables


def _run(contender: Contender, bed: Any, count: int, table: Table, say: Callable[[str], None]) -> None:
    gc.collect()
    time.sleep(0.05)
    try:
        sample = _sample(contender, bed, max(count // contender.fewer, min(count, FEWEST)))
    except Exception as error:
        # The other contenders go on; the page and the exit code tell.
        table.errors[contender.name] = f"{type(error).__name__}: {error}"
        say(f"{contender.name} failed: {table.errors[contender.name]}")
    else:
        table.samples[contender.name].append(sample)


def _sample(contender: Contender, bed: Any, count: int) -> Sample:
    work = contender.run(bed, count)
    if not inspect.iscoroutine(work):
        assert isinstance(work, dict)
        return work
    with asyncio.Runner(loop_factory=uvloop_factory() if contender.uvloop else None) as runner:
        sample: Sample = runner.run(work)
        return sample


def uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop


class Stopwatch:
    """`with Stopwatch() as watch: ...; return watch.sample(n)`: wall time, and CPU time of this process.

    With the process id of a server, its CPU time too.
    """

    def __init__(self, server: int | None = None) -> None:
        self._server = server

    def __enter__(self) -> Stopwatch:
        self._server_cpu = self._of_server()
        self._start, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc: object) -> None:
        self.cpu = time.process_time() - self._cpu
        self.seconds = time.perf_counter() - self._start
        self.server_cpu = self._of_server() - self._server_cpu

    def _of_server(self) -> float:
        return 0.0 if self._server is None else cpu_times(self._server)[0]

    def sample(self, count: int, **more: float) -> Sample:
        """The rate, the microseconds of CPU per message, and `more`."""
        scale = 1e6 / count
        sample = {"rate": count / self.seconds, "cpu": self.cpu * scale}
        if self._server is not None:
            sample["server"] = self.server_cpu * scale
        return {**sample, **more}


def say(text: str) -> None:
    """Print progress, beside the result on standard output."""
    print(text, file=sys.stderr, flush=True)


def of(table: Table, contender: str, other: str, key: str = "rate") -> float | None:
    """The ratio of two medians."""
    ours, theirs = table.median(contender, key), table.median(other, key)
    return ours / theirs if ours is not None and theirs else None
