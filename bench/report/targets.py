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
    #: Where the time goes, out of the same run; shown if a figure is missed.
    profile: Callable[[Results], str] = lambda _: ""


def _share(results: Results, run: str, contender: str, other: str, limit: float) -> Figure:
    """The rate of a contender as a percentage of another's."""
    table = results.runs[run].at(SIZE) if run in results.runs else None
    ratio = of(table, contender, other) if table is not None else None
    return Figure(None if ratio is None else 100 * ratio, "{:.0f} %", limit)


def _median(results: Results, run: str, contender: str, key: str, *, text: str, limit: float) -> Figure:
    table = results.runs[run].at(SIZE) if run in results.runs else None
    value = table.median(contender, key) if table is not None else None
    return Figure(value, text, limit, at_most=True)


def _fetch_profile(results: Results) -> str:
    cost = _costs(results, "fetch", "cpu")
    return f"the raw socket spends {cost('raw socket'):.2f} us to move the same bytes through the kernel"


def _shared_cores(results: Results, run: str, contenders: Sequence[str], ceiling: str) -> str:
    """What the server takes of the cores that it shares with the client, and what that leaves."""
    cost = _costs(results, run, "cpu", "server")
    client, server = _costs(results, run, "cpu"), _costs(results, run, "server")
    by_cpu = ", ".join(f"{100 * cost(ceiling) / cost(name):.0f} % {_short(name)}" for name in contenders)
    spent = ", ".join(f"{client(name):.1f} + {server(name):.1f} us {_short(name)}" for name in contenders)
    return (
        f"client and server share the cores; client + server spend {spent}, and "
        f"{client(ceiling):.1f} + {server(ceiling):.1f} us with the raw socket. "
        f"By CPU time alone that is {by_cpu}"
    )


def _noop_profile(results: Results) -> str:
    python = _costs(results, "spark-read", "python")
    return (
        f"for a million rows, Spark's worker spends {python('same batch to noop'):.2f} s of Python CPU for "
        f"a source that returns one batch repeatedly, and a raw socket {python('raw socket'):.2f} s"
    )


def _parquet_profile(results: Results) -> str:
    keys = {"JVM": "jvm", "Python": "python", "nats-server": "server"}
    names = ("jetspark to Parquet", "same batch to Parquet")
    parts = [
        ", ".join(f"{_costs(results, 'spark-read', key)(name):.2f} {who}" for who, key in keys.items())
        for name in names
    ]
    cost = _costs(results, "spark-read", *keys.values())
    return (
        f"seconds of CPU for a million rows: {parts[0]}; of the repeated batch: {parts[1]}. "
        f"By CPU time alone that is {100 * cost(names[1]) / cost(names[0]):.0f} %"
    )


def _pipeline_profile(results: Results) -> str:
    keys = {"JVM": "jvm", "Python": "python", "nats-server": "server"}
    job, *peers = (
        "job, access log to Parquet",
        "plain Spark, text files to the same table",
        "plain Spark, only what is in a line",
    )
    spent = ", ".join(f"{_costs(results, 'pipeline', key)(job):.1f} {who}" for who, key in keys.items())
    spark = _costs(results, "pipeline", "jvm", "python")
    shares = " and ".join(f"{100 * spark(peer) / spark(job):.0f} %" for peer in peers)
    return (
        f"the job spends {spent} seconds of CPU for a million lines, plain Spark {spark(peers[0]):.1f} and "
        f"{spark(peers[1]):.1f}. The server "
        f"shares the two cores; by the CPU time of Spark alone that is {shares}"
    )


def _batch_profile(results: Results) -> str:
    seconds = _costs(results, "pipeline-batch", "seconds")
    return (
        f"the same batch to `noop` takes {seconds('jetstream to noop'):.2f} s; the rest is Spark's plan and "
        "write of a partitioned Parquet table, in one job"
    )


def _start_profile(results: Results) -> str:
    seconds = _costs(results, "pipeline-start", "seconds")
    return (
        "Java and Spark keep both cores busy all the time; a streaming query of plain Spark from a text "
        f"file to Parquet takes {seconds('plain Spark, one line to Parquet'):.1f} s in the same run"
    )


def _object_profile(results: Results) -> str:
    client, server = (_costs(results, "object-put", key)("jetspark") / 1e3 for key in ("cpu", "server"))
    most = 2e3 / (client + server)
    nats_py = _costs(results, "object-put", "rate")("nats-py")
    return (
        f"to put a MiB, client and server spend {client:.1f} + {server:.1f} ms of CPU: two cores can do "
        f"{most:.0f} MiB/s, {most / nats_py:.1f} times nats-py"
    )


def _costs(results: Results, run: str, *keys: str) -> Callable[[str], float]:
    """CPU time of a contender: the sum of these columns."""
    table = results.runs[run].at(SIZE)
    assert table is not None
    return lambda contender: sum(table.median(contender, key) or 0.0 for key in keys)


def _short(contender: str) -> str:
    return f"`{contender.removeprefix('jetspark').removeprefix(',').removeprefix(' await').strip()}`"


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
        profile=_fetch_profile,
    ),
    Target(
        "acked, of a raw reader that acks",
        ">= 95 % for all four ways",
        lambda r: [_share(r, "acked", f"jetspark {way}", "raw socket", 95) for way in FOUR_WAYS],
        names=tuple(f"`{way}`" for way in FOUR_WAYS),
        profile=lambda r: _shared_cores(r, "acked", [f"jetspark {way}" for way in FOUR_WAYS], "raw socket"),
    ),
    Target(
        "windowed publish, of raw with ids",
        ">= 90 % (`send`), >= 80 % (`publish`)",
        lambda r: [
            _share(r, "publish", "jetspark, await send()", "raw socket, ids", 90),
            _share(r, "publish", "jetspark, publish()", "raw socket, ids", 80),
        ],
        names=("`send`", "`publish`"),
        profile=lambda r: _shared_cores(
            r, "publish", ("jetspark, await send()", "jetspark, publish()"), "raw socket, ids"
        ),
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
        profile=_noop_profile,
    ),
    Target(
        "Spark to Parquet, of a Python source that repeats one batch",
        ">= 70 %",
        lambda r: [_share(r, "spark-read", "jetspark to Parquet", "same batch to Parquet", 70)],
        profile=_parquet_profile,
    ),
    Target(
        "Spark as a worker of a consumer, of Spark by offsets",
        ">= 40 %",
        lambda r: [_share(r, "queue", "consumer, work queue", "offsets, work queue", 40)],
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
            _share(r, "pipeline", "job, access log to Parquet", f"plain Spark, {each}", 100)
            for each in ("text files to the same table", "only what is in a line")
        ],
        names=("into the same table", "with fewer columns"),
        profile=_pipeline_profile,
    ),
    Target(
        "pipeline, a batch of 200 lines",
        "<= 0.35 s",
        lambda r: [
            _median(r, "pipeline-batch", "job, access log to Parquet", "seconds", text="{:.2f} s", limit=0.35)
        ],
        profile=_batch_profile,
    ),
    Target(
        "`pipeline run --once` for one line, cold",
        "<= 9 s",
        lambda r: [_median(r, "pipeline-start", "one line to Parquet", "seconds", text="{:.1f} s", limit=9)],
        profile=_start_profile,
    ),
    Target(
        "an object of 1 GiB, of nats-py",
        ">= 500 %",
        lambda r: [_share(r, f"object-{way}", "jetspark", "nats-py", 500) for way in ("put", "get")],
        names=("put", "get"),
        profile=_object_profile,
    ),
    Target(
        "three headers a message, of the rate without",
        ">= 85 %",
        lambda r: [_share(r, "spark-read", "jetspark to noop, three headers", "jetspark to noop", 85)],
    ),
    Target(
        "the console with 200 streams and 1,000 consumers, of a core",
        "<= 5 %",
        lambda r: [_median(r, "console", "console, overview open", "core", text="{:.1f} %", limit=5)],
    ),
)


def target_table(results: Results) -> list[str]:
    """The lines of the table, and what was missed, with where its time goes."""
    lines = ["| work | measured | target |", "|---|---|---|"]
    missed = []
    for target in TARGETS:
        figures = target.figures(results)
        names = target.names or ("",) * len(figures)
        measured = ", ".join(f"{figure} {name}".strip() for figure, name in zip(figures, names, strict=True))
        lines.append(f"| {target.work} | {measured} | {target.target} |")
        if any(figure.missed for figure in figures):
            missed.append(f"{target.work}: {target.profile(results)}".removesuffix(": ") + ".")
    if not missed:
        return [*lines, "", "No measured figure misses its target."]
    lines += ["", "Not reached, and where the time goes:", ""]
    return [*lines, *(f"- {each}" for each in missed)]
