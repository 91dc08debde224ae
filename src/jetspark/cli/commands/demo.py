"""`jetspark demo`: the whole log pipeline on this machine, for about a minute, with a kill on the way."""

from __future__ import annotations

import dataclasses
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from jetspark.cli.args.parameters import one_of, option, period
from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.demo_view import DemoView
from jetspark.cli.ui.failure import Failure
from jetspark.errors import Error, UsageError

if TYPE_CHECKING:
    from jetspark.logs.demo.counts import LineCounts
    from jetspark.logs.demo.hosts import LogSource
    from jetspark.logs.demo.pipeline import Pipeline

app = single()

#: Seconds between two looks.
_LOOK: Final = 0.25
#: Seconds that the rest may take when the hosts are done.
_PATIENCE: Final = 300.0
#: Lines after which a host rotates its log.
_ROTATE: Final = 3000


@command(
    app,
    "demo",
    examples="""
    jetspark demo
    jetspark demo --hosts 20 --rate 200 --seconds 2m --directory /tmp/demo
    jetspark demo --files '/var/log/nginx/access.log*'
    """,
)
def demo(
    run: Run,
    *,
    hosts: Annotated[int, typer.Option("--hosts", metavar="NUMBER", min=1, help="How many write.")] = 5,
    rate: Annotated[
        float, typer.Option("--rate", metavar="NUMBER", min=1, help="Lines a second of each.")
    ] = 400,
    seconds: Annotated[
        float | None,
        period("--seconds", help="For how long they write once Spark works (20s)."),
    ] = None,
    files: Annotated[
        list[str] | None,
        option("--files", metavar="PATTERN", help="Ship these files of yours instead."),
    ] = None,
    format: Annotated[
        str | None,
        option(
            "--format",
            metavar="WORD",
            parser=one_of("combined", "syslog", "raw"),
            help="How lines of yours are written (combined).",
        ),
    ] = None,
    kill: Annotated[
        bool, typer.Option("--kill/--no-kill", help="Kill Spark on the way, and start it again.")
    ] = True,
    directory: Annotated[
        Path | None,
        option("--directory", metavar="PATH", help="Where everything goes; it must be empty (a new one)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Other lines.")] = 1,
) -> None:
    """Run the whole log pipeline: hosts write, agents ship, Spark makes a table, and is killed on the way.

    In the end Spark counts: the exit code is 0 if every line that was written is in the table or a dead
    letter, once.
    """
    _check_installed()
    from jetspark.logs.demo.hosts import Host, OwnFiles  # noqa: PLC0415 - loads Spark
    from jetspark.logs.demo.pipeline import Pipeline  # noqa: PLC0415
    from jetspark.logs.demo.plot import draw  # noqa: PLC0415

    if format is not None and not files:
        raise UsageError("--format is for --files", hint="Simulated hosts write access logs")
    place = _place(directory)
    sources: Sequence[LogSource] = (
        [OwnFiles(files)]
        if files
        else [
            Host(name, place / "hosts" / name, rate=rate, rotate_after=_ROTATE, seed=f"{seed} {name}")
            for name in (f"web{number}" for number in range(1, hosts + 1))
        ]
    )
    try:
        with (
            Pipeline(place, sources, format=format or "combined") as pipeline,
            DemoView(run.out, pipeline) as view,
        ):
            _watch(pipeline, view, 0.0 if files else seconds or 20.0, kill=kill)
            counts = _count(pipeline, simulated=not files)
        draw(place / "throughput_and_lag.png", pipeline.samples, pipeline.killed)
    except Error as error:
        raise Failure(str(error), f"Everything is in {place}") from error
    _show(run, counts, pipeline)
    if not counts.match:
        raise Failure(
            f"the counts do not match: {counts.lost:,} lines missing, {counts.duplicates:,} duplicates",
            f"Everything is in {place}",
        )


def _check_installed() -> None:
    for module in ("pyspark", "matplotlib"):
        if importlib.util.find_spec(module) is None:
            raise Failure(f"the demo needs {module}", "Install it with `pip install 'jetspark[demo]'`")


def _place(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="jetspark-demo-"))
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise UsageError(f"{directory} is no empty directory", hint="Name one that is, or none")
    return directory.absolute()


def _watch(pipeline: Pipeline, view: DemoView, seconds: float, *, kill: bool) -> None:
    """Let it run for so long once Spark works, and kill it half-way. Then wait until all is processed."""
    deadline = time.monotonic() + _PATIENCE
    while not view.show(pipeline.sample()).processed:
        if time.monotonic() > deadline:
            raise Error(f"Spark finished no batch in {_PATIENCE:g} s")
        time.sleep(_LOOK)
    _run_for(seconds / 2, pipeline, view)
    if kill:
        pipeline.kill_job()
        view.note("Spark was killed, and starts again")
    _run_for(seconds / 2, pipeline, view)
    view.note("the hosts are done, the rest is on its way")
    pipeline.finish(view.show, timeout=_PATIENCE)
    view.note("Spark counts")


def _run_for(seconds: float, pipeline: Pipeline, view: DemoView) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        view.show(pipeline.sample())
        time.sleep(_LOOK)


def _count(pipeline: Pipeline, *, simulated: bool) -> LineCounts:
    from jetspark.logs.demo.counts import count_lines  # noqa: PLC0415 - loads Spark
    from jetspark.logs.demo.pipeline import DEAD_LETTERS  # noqa: PLC0415
    from jetspark.logs.job.config_file import read_config  # noqa: PLC0415
    from jetspark.logs.job.session import start_session  # noqa: PLC0415

    config, _ = read_config(pipeline.config)
    spark = start_session(config, pipeline.place / "spark.log")
    try:
        table, url = str(pipeline.table), pipeline.server.url
        return count_lines(spark, pipeline.last.written, table, url, DEAD_LETTERS, simulated=simulated)
    finally:
        spark.stop()


def _show(run: Run, counts: LineCounts, pipeline: Pipeline) -> None:
    place = pipeline.place
    files = {
        "table": place / "table",
        "plot": place / "throughput_and_lag.png",
        "job": place / "pipeline.toml",
        "logs": place,
    }
    if run.out.json:
        paths = {name: str(path) for name, path in files.items()}
        run.out.value({**dataclasses.asdict(counts), "lost": counts.lost, "balanced": counts.match, **paths})
        return
    equals = "=" if counts.match else "!="
    run.out.text(
        f"Lines written {show_count(counts.written)} {equals} rows {show_count(counts.rows)} + dead letters "
        f"{show_count(counts.dead_letters)}, duplicates {show_count(counts.duplicates)}, "
        f"kills of Spark {len(pipeline.killed)}, in {pipeline.last.seconds:.0f} s"
    )
    run.out.details(
        [
            ("Top hosts", _counts(counts.hosts)),
            ("Status codes", _counts(counts.statuses)),
            ("Dead letters", _counts(counts.reasons)),
            *((name.capitalize(), path) for name, path in files.items()),
        ]
    )


def _counts(pairs: Sequence[tuple[object, int]]) -> str | None:
    return ", ".join(f"{name} {show_count(count)}" for name, count in pairs) or None
