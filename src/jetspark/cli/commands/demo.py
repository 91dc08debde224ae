"""`jetspark demo`: the whole log pipeline on this machine for about a minute, with Spark killed halfway."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from jetspark.cli.args.parameters import choice_option, duration_option, option
from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Failure, require
from jetspark.cli.ui.output import Output
from jetspark.cli.ui.signals import wait_for_signal
from jetspark.errors import Error, UsageError

if TYPE_CHECKING:
    from jetspark.logs.demo.counts import LineCounts
    from jetspark.logs.demo.hosts import LogSource
    from jetspark.logs.demo.pipeline import Pipeline, Sample

app = single()

#: Seconds between two samples.
_INTERVAL: Final = 0.25
#: Seconds to wait for the first batch, and for the last one after the hosts stop.
_TIMEOUT: Final = 300.0
#: Seconds to wait for the console.
_CONSOLE_TIMEOUT: Final = 120.0
#: Seconds between two lines without a terminal.
_EVERY: Final = 5.0
#: Seconds over which the rate is computed.
_SPAN: Final = 5.0
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
    hosts: Annotated[
        int, typer.Option("--hosts", metavar="NUMBER", min=1, help="Number of simulated hosts.")
    ] = 5,
    rate: Annotated[
        float, typer.Option("--rate", metavar="NUMBER", min=1, help="Lines per second and host.")
    ] = 400,
    seconds: Annotated[
        float | None, duration_option("--seconds", help="How long the hosts write once Spark runs (20s).")
    ] = None,
    files: Annotated[
        list[str] | None,
        option("--files", metavar="PATTERN", help="Ship these files instead of simulated logs."),
    ] = None,
    format: Annotated[
        str | None,
        choice_option(
            "--format", choices=("combined", "syslog", "raw"), help="Format of the --files (combined)."
        ),
    ] = None,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="Kill Spark halfway and restart it.")] = True,
    directory: Annotated[
        Path | None,
        option("--directory", metavar="PATH", help="Empty directory for all files (a temporary one)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Seed of the simulated lines.")] = 1,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Start the console, if it is installed.")
    ] = True,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep the server and the console up at the end, until Ctrl-C.")
    ] = False,
) -> None:
    """Run the whole log pipeline: hosts write, agents ship, Spark writes a table and is killed halfway.

    At the end Spark counts the lines. The exit code is 0 if each line that was written is exactly once in the
    table or among the dead letters.
    """
    began = time.monotonic()
    for module in ("pyspark", "matplotlib"):
        require(module, "the demo", "demo")
    from jetspark.logs.demo.hosts import Host, OwnFiles  # noqa: PLC0415 - loads Spark
    from jetspark.logs.demo.pipeline import Pipeline  # noqa: PLC0415
    from jetspark.logs.demo.plot import draw  # noqa: PLC0415

    if format is not None and not files:
        raise UsageError("--format needs --files", hint="Simulated hosts write access logs")
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
        with Pipeline(place, sources, format=format or "combined") as pipeline:
            if console and not run.out.json:
                _start_console(run, pipeline)
            with _View(run.out, pipeline) as view:
                _watch(pipeline, view, 0.0 if files else seconds or 20.0, kill=kill)
                with view.waiting("Spark counts the lines"):
                    counts = _count(pipeline, simulated=not files)
            draw(place / "throughput_and_lag.png", pipeline.samples, pipeline.killed)
            _show(run, counts, pipeline, time.monotonic() - began)
            if hold:
                wait_for_signal(lambda: _announce(run, pipeline.server.url))
    except Error as error:
        raise Failure(str(error), f"All files are in {place}") from error
    if not counts.match:
        raise Failure(
            f"the counts do not match: {counts.lost:,} lines missing, {counts.duplicates:,} duplicates",
            f"All files are in {place}",
        )


def _place(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="jetspark-demo-"))
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise UsageError(f"{directory} is not an empty directory", hint="Use an empty or a new directory")
    return directory.absolute()


def _start_console(run: Run, pipeline: Pipeline) -> None:
    """Start the console and print its URL. The demo continues without it."""
    if find_spec("nicegui") is None or find_spec("jetspark.console") is None:
        return
    try:
        run.out.text(f"Console: {pipeline.start_console(timeout=_CONSOLE_TIMEOUT)}")
    except Error as error:
        run.out.warn(f"the console does not start: {error}")


def _announce(run: Run, url: str) -> None:
    if not run.out.json:
        run.out.text(f"The server at {url} stays up. Ctrl-C ends it")


def _watch(pipeline: Pipeline, view: _View, seconds: float, *, kill: bool) -> None:
    """Run for `seconds` once Spark works, killing it halfway. Then wait until every line is processed."""
    pipeline.start(view.note, view.show, timeout=_TIMEOUT)
    deadline = time.monotonic() + _TIMEOUT
    while not view.show(pipeline.sample()).processed:
        if time.monotonic() > deadline:
            raise Error(f"Spark finished no batch in {_TIMEOUT:g} s")
        time.sleep(_INTERVAL)
    _run_for(seconds / 2, pipeline, view)
    if kill:
        pipeline.kill_job()
        view.note("Spark was killed and restarts")
    _run_for(seconds / 2, pipeline, view)
    view.note("the hosts are done, waiting for the rest")
    pipeline.finish(view.show, timeout=_TIMEOUT)


def _run_for(seconds: float, pipeline: Pipeline, view: _View) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        view.show(pipeline.sample())
        time.sleep(_INTERVAL)


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


def _show(run: Run, counts: LineCounts, pipeline: Pipeline, seconds: float) -> None:
    place = pipeline.place
    files = {
        "table": place / "table",
        "plot": place / "throughput_and_lag.png",
        "job": place / "pipeline.toml",
        "logs": place,
    }
    if run.out.json:
        paths = {name: str(path) for name, path in files.items()}
        totals = {**dataclasses.asdict(counts), "lost": counts.lost, "balanced": counts.match}
        run.out.value({**totals, "seconds": round(seconds, 1), **paths})
        return
    equals = "=" if counts.match else "!="
    run.out.text(
        f"Lines written {show_count(counts.written)} {equals} rows {show_count(counts.rows)} + dead letters "
        f"{show_count(counts.dead_letters)}, duplicates {show_count(counts.duplicates)}, "
        f"kills of Spark {len(pipeline.killed)}, in {seconds:.0f} s"
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


class _View:
    """Samples and notes: a live table on a terminal, elsewhere a line every few seconds. Not with --json."""

    def __init__(self, out: Output, pipeline: Pipeline) -> None:
        self._out = out
        self._pipeline = pipeline
        self._live: Any = None
        self._note = ""
        self._next = 0.0

    def __enter__(self) -> Self:
        if sys.stdout.isatty() and not self._out.json:
            from rich.live import Live  # noqa: PLC0415 - loaded when something is shown

            # It draws itself anew four times a second, even while nothing happens here.
            self._live = Live(get_renderable=self._table, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Show what happens now."""
        self._note = text
        if self._live is None:
            self._print(text)

    def show(self, sample: Sample) -> Sample:
        """Show a sample, and return it."""
        if self._live is None and sample.seconds >= self._next:
            self._next = sample.seconds + _EVERY
            values = "  ".join(f"{name} {value}" for name, value in self._values())
            self._print(values)
        return sample

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show every few seconds that the demo still runs."""
        self.note(text)
        over = threading.Event()

        def repeat() -> None:
            while not over.wait(_EVERY):
                self._print(text)

        thread = threading.Thread(target=repeat, name="jetspark-demo-waiting", daemon=True)
        if self._live is None:
            thread.start()
        try:
            yield
        finally:
            over.set()

    def _print(self, text: str) -> None:
        if not self._out.json:
            self._out.text(f"{self._pipeline.elapsed:5.1f} s  {text}")

    def _values(self) -> list[tuple[str, str]]:
        samples = self._pipeline.samples
        now = self._pipeline.last
        back = next((each for each in reversed(samples) if now.seconds - each.seconds >= _SPAN), now)
        rate = (now.processed - back.processed) / max(now.seconds - back.seconds, 1e-6)
        counts = {name: getattr(now, name) for name in ("written", "shipped", "stored", "processed", "lag")}
        return [
            *((name, show_count(count)) for name, count in counts.items()),
            ("dead letters", show_count(now.dead_letters)),
            ("rows/s", show_count(max(round(rate), 0))),
        ]

    def _table(self) -> Any:
        from rich.table import Table  # noqa: PLC0415

        caption = f"{self._note} ({self._pipeline.elapsed:.0f} s)"
        table = Table(title="jetspark demo", caption=caption, min_width=70)
        for name, _ in self._values():
            table.add_column(name, justify="right")
        table.add_row(*(value for _, value in self._values()))
        return table
