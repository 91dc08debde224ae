"""What the measurements must show: the table of targets, and what was measured for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from bench.harness import SIZE, of
from bench.results import Results


@dataclasses.dataclass(frozen=True)
class Figure:
    """A measured value and its limit: at least `limit`, or at most."""

    value: float | None
    text: str
    limit: float
    at_most: bool = False

    @property
    def missed(self) -> bool:
        return self.value is not None and (
            self.value > self.limit if self.at_most else self.value < self.limit
        )

    def __str__(self) -> str:
        return "not measured" if self.value is None else self.text.format(self.value)


@dataclasses.dataclass(frozen=True)
class Target:
    work: str
    target: str
    figures: Callable[[Results], Sequence[Figure]]
    #: Names for several figures.
    names: Sequence[str] = ()


def _share(results: Results, run: str, contender: str, other: str, limit: float) -> Figure:
    """The rate of a contender as a percentage of another's."""
    table = results.runs[run].at(SIZE) if run in results.runs else None
    ratio = of(table, contender, other) if table is not None else None
    return Figure(None if ratio is None else 100 * ratio, "{:.0f} %", limit)


def _median(results: Results, run: str, contender: str, key: str, *, text: str, limit: float) -> Figure:
    table = results.runs[run].at(SIZE) if run in results.runs else None
    value = table.median(contender, key) if table is not None else None
    return Figure(value, text, limit, at_most=True)


#: The ways to read with acknowledgements.
FOUR_WAYS: Final = ("fetch(5000)", "messages()", "consume()", "classic fetch(5000)")

TARGETS: Final = (
    Target(
        "`fetch(5000)`, ack none, of raw",
        ">= 65 %",
        lambda r: [_share(r, "fetch", "jetspark fetch(5000)", "raw socket", 65)],
    ),
    Target(
        "`messages()`, ack none, of raw",
        ">= 75 %",
        lambda r: [_share(r, "fetch", "jetspark messages()", "raw socket", 75)],
    ),
    Target(
        "client CPU per message, fetch",
        "<= 0.5 us",
        lambda r: [_median(r, "fetch", "jetspark fetch(5000)", "cpu", text="{:.2f} us", limit=0.5)],
    ),
    Target(
        "acked, of a raw reader that acks",
        ">= 95 % for all four ways",
        lambda r: [_share(r, "acked", f"jetspark {way}", "raw socket", 95) for way in FOUR_WAYS],
        names=tuple(f"`{way}`" for way in FOUR_WAYS),
    ),
    Target(
        "windowed publish, of raw with ids",
        ">= 90 % (`send`), >= 80 % (`publish`)",
        lambda r: [
            _share(r, "publish", "jetspark, await send()", "raw socket, ids", 90),
            _share(r, "publish", "jetspark, publish()", "raw socket, ids", 80),
        ],
        names=("`send`", "`publish`"),
    ),
    Target(
        "core subscribe / publish, of raw",
        ">= 75 % / >= 70 %",
        lambda r: [
            _share(r, "core-subscribe", "jetspark, async for", "raw socket", 75),
            _share(r, "core-publish", "jetspark, await publish()", "raw socket", 70),
        ],
        names=("subscribe", "publish"),
    ),
    Target(
        "Spark to noop",
        ">= 60 % of raw; <= 0.8 s Python CPU/M",
        lambda r: [
            _share(r, "spark-read", "jetspark to noop", "raw socket", 60),
            _median(r, "spark-read", "jetspark to noop", "python", text="{:.2f} s/M", limit=0.8),
        ],
        names=("of raw", "Python CPU"),
    ),
    Target(
        "Spark to Parquet, of a Python source that repeats one batch",
        ">= 70 %",
        lambda r: [_share(r, "spark-read", "jetspark to Parquet", "same batch to Parquet", 70)],
    ),
    Target(
        "1,000 streams, 3 messages each, `count()`",
        "<= 4 s",
        lambda r: [_median(r, "streams", "count(), 1,000 streams", "seconds", text="{:.1f} s", limit=4)],
    ),
    Target(
        "idle `latestOffset`, 1,000 streams behind 5 ms of delay",
        "<= 0.3 s",
        lambda r: [
            _median(
                r, "streams", "idle latestOffset, 1,000 streams, delay", "seconds", text="{:.2f} s", limit=0.3
            )
        ],
    ),
    Target(
        "pipeline, 1,000,000 lines, of plain Spark over text files",
        ">= 100 %",
        lambda r: [
            _share(r, "pipeline", "job, access log to Parquet", "plain Spark, text files to Parquet", 100)
        ],
    ),
    Target(
        "pipeline, a batch of 200 lines",
        "<= 0.35 s",
        lambda r: [
            _median(r, "pipeline-batch", "job, access log to Parquet", "seconds", text="{:.2f} s", limit=0.35)
        ],
    ),
    Target(
        "`pipeline run --once` for one line, cold",
        "<= 9 s",
        lambda r: [_median(r, "pipeline-start", "one line to Parquet", "seconds", text="{:.1f} s", limit=9)],
    ),
    Target(
        "three headers a message, of the rate without",
        ">= 85 %",
        lambda r: [_share(r, "spark-read", "jetspark to noop, three headers", "jetspark to noop", 85)],
    ),
)


def target_table(results: Results) -> list[str]:
    """The lines of the table, and a sentence about what was missed."""
    lines = ["| work | measured | target |", "|---|---|---|"]
    missed = []
    for target in TARGETS:
        figures = target.figures(results)
        names = target.names or ("",) * len(figures)
        measured = ", ".join(f"{figure} {name}".strip() for figure, name in zip(figures, names, strict=True))
        lines.append(f"| {target.work} | {measured} | {target.target} |")
        if any(figure.missed for figure in figures):
            missed.append(target.work)
    lines += ["", f"Not reached: {'; '.join(missed)}." if missed else "No measured figure misses its target."]
    return lines
