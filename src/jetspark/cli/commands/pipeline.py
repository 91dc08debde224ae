"""`jetspark pipeline`: the Spark job that turns shipped log lines into tables, configured by one file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

import typer

from jetspark.cli.args.parameters import duration_option
from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command, group
from jetspark.cli.long_running import LogFormat, MetricsAddress, MetricsPort, serve_metrics
from jetspark.cli.ui.failure import Exit, Failure, require
from jetspark.cli.ui.output import Output
from jetspark.cli.ui.signals import stopped_by_signals
from jetspark.errors import Error, UsageError
from jetspark.logs.agent.join import join_events
from jetspark.logs.agent.multiline import Multiline
from jetspark.logs.agent.options import MAX_LINE
from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line

if TYPE_CHECKING:
    from jetspark.logs.job.config import Config
    from jetspark.logs.job.runner import BatchProgress
    from jetspark.logs.toml_lines import Where

app = group("The Spark job of the log pipeline: reads log lines from JetStream and writes tables.")

PipelineFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="Configuration file, like pipeline.toml.")
]

#: Settings of the connection that a job has in its file. `--server` is the exception.
_IN_THE_FILE: Final = (
    *("context", "user", "password_file", "token_file", "creds", "nkey"),
    *("tlsca", "tlscert", "tlskey", "tlsfirst", "js_domain", "js_api_prefix", "inbox_prefix"),
)
#: The bytes of a file that are read to find its first lines.
_MAX_TRIED: Final = 64 * 1024 * 1024


@command(app, "check", examples="jetspark pipeline check pipeline.toml")
def check(run: Run, file: PipelineFile) -> None:
    """Check a configuration file, without Spark and without a server.

    An error names its line and key, and the exit code is 2.
    """
    config, _ = _read(run, file)
    run.out.result(
        {"file": str(file), "name": config.name, "ok": True},
        f"{file} is valid: {config.name}, {_summary(config)}",
    )


@command(
    app,
    "explain",
    examples="""
    jetspark pipeline explain pipeline.toml
    jetspark pipeline explain pipeline.toml --plan
    """,
)
def explain(
    run: Run,
    file: PipelineFile,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Start Spark, and show its plan as well.")] = False,
) -> None:
    """Show what would run: source, format, columns, sink. --plan checks the SQL as well."""
    config, where = _read(run, file)
    shown = _plan(config, where) if plan else None
    pairs = _pairs(config)
    if run.out.json:
        keys = (name.lower().replace(" ", "_") for name, _ in pairs)
        document = dict(zip(keys, (value for _, value in pairs), strict=True))
        run.out.value({**document, **({"plan": shown} if shown is not None else {})})
        return
    run.out.details((name, ", ".join(value) if isinstance(value, list) else value) for name, value in pairs)
    if shown is not None:
        run.out.text()
        for line in shown.splitlines():
            run.out.text(line)


@command(
    app,
    "run",
    examples="""
    jetspark pipeline run pipeline.toml
    jetspark pipeline run pipeline.toml --once --server nats://127.0.0.1:4222
    jetspark pipeline run pipeline.toml --json | jq .lag
    """,
)
def run_pipeline(
    run: Run,
    file: PipelineFile,
    *,
    once: Annotated[bool, typer.Option("--once", help="Process the stored messages, then stop.")] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = None,
    log_format: LogFormat = None,
) -> None:
    """Run the job until Ctrl-C or SIGTERM. It finishes its batch first; a second signal stops it at once.

    With --once, or the trigger available-now or once, it stops by itself.
    """
    config, where = _read(run, file)
    require("pyspark", "the job", "spark")
    from jetspark.logs.job.job import Job  # noqa: PLC0415 - loads Spark
    from jetspark.logs.job.preflight import check_server  # noqa: PLC0415
    from jetspark.logs.job.report import JobReports  # noqa: PLC0415
    from jetspark.logs.job.runner import Runner  # noqa: PLC0415
    from jetspark.logs.job.session import start_session, stop_session  # noqa: PLC0415

    outputs = check_server(config, where)
    log = _log(config)
    live = _LiveLine(run.out)
    reports = JobReports(config)
    with serve_metrics(run.out, metrics_port, metrics_address, reports), reports:
        run.out.note(f"Starting Spark ({config.spark.master}), which logs to {log}")
        spark = start_session(config, log)

        def report(progress: BatchProgress) -> None:
            reports.add(progress)
            if run.out.json:
                run.out.record(dataclasses.asdict(progress))
            else:
                live.show(progress)

        runner = Runner(Job(spark, config, where), report)
        try:
            with live, stopped_by_signals(runner.stop.set, runner.stop_now.set) as received:
                reports.running()
                runner.run(outputs, once=once)
        except UsageError:
            raise  # An error in the file, with line and key.
        except Error as error:
            log_is = f"The log of Spark is {log}"
            raise Failure(str(error.args[0]), f"{error.hint}. {log_is}" if error.hint else log_is) from error
        finally:
            stop_session(spark)
    totals = runner.totals
    if not run.out.json:
        run.out.text(
            f"{show_count(totals['lines'], 'line')}: {show_count(totals['rows'], 'row')} written, "
            f"{show_count(totals['dead_letters'], 'dead letter')}"
        )
    if received:
        raise typer.Exit(received[0])


@command(
    app,
    "compact",
    examples="""
    jetspark pipeline compact pipeline.toml
    jetspark pipeline compact pipeline.toml --keep 1d
    """,
)
def compact(
    run: Run,
    file: PipelineFile,
    *,
    keep: Annotated[
        float | None, duration_option("--keep", help="Keep old versions of the table for this long (7d).")
    ] = None,
) -> None:
    """Merge the small files of a table of format delta or iceberg, and delete its old versions.

    The job may run meanwhile. Spark is not needed. A reader of a version that is deleted fails.
    """
    config, where = _read(run, file)
    done = config.sink.compact(config, where, timedelta(days=7) if keep is None else timedelta(seconds=keep))
    run.out.result(
        {"merged": done.merged, "written": done.written, "deleted": done.deleted},
        f"{show_count(done.merged, 'file')} merged into {show_count(done.written)}, "
        f"{show_count(done.deleted, 'file')} of old versions deleted",
    )


@command(
    app,
    "try",
    examples="""
    jetspark pipeline try pipeline.toml /var/log/nginx/access.log
    tail -1000 app.log | jetspark pipeline try pipeline.toml - --lines 1000 --failed
    jetspark pipeline try pipeline.toml --json | jq .row.status
    """,
)
def try_pipeline(
    run: Run,
    file: PipelineFile,
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG]",
            help="File with log lines, - for stdin; the stream by default.",
            show_default=False,
        ),
    ] = None,
    *,
    lines: Annotated[
        int, typer.Option("--lines", metavar="NUMBER", min=1, max=10_000, help="Number of lines to parse.")
    ] = 10,
    failed: Annotated[bool, typer.Option("--failed", help="Show only the lines that do not parse.")] = False,
) -> None:
    """Parse the first lines of a file or of the stream, and show the rows, or why a line does not parse.

    It runs the parser of the job in a local Spark, and writes nothing. A file needs no server.
    """
    config, where = _read(run, file)
    require("pyspark", "the job", "spark")
    from jetspark.logs.job.preflight import check_source  # noqa: PLC0415 - loads Spark
    from jetspark.logs.job.session import start_session, stop_session  # noqa: PLC0415
    from jetspark.logs.job.trial import TrialLines, try_lines  # noqa: PLC0415

    given: TrialLines | int = lines
    if log is None:
        check_source(config)
    else:
        name = None if str(log) == "-" else str(log)
        given = TrialLines(_first_lines(log, lines, config), socket.gethostname(), name)
    with tempfile.TemporaryDirectory(prefix="jetspark-", ignore_cleanup_errors=True) as place:
        spark = start_session(config, Path(place) / "spark.log", trial=True)
        try:
            outcomes = try_lines(spark, config, where, given)
        finally:
            stop_session(spark)
    for number, (line, row, reason) in enumerate(outcomes, 1):
        if failed and reason is None:
            continue
        if run.out.json:
            run.out.record({"number": number, "line": line, "row": row or None, "reason": reason})
        else:
            run.out.text(f"{number}: {line}")
            run.out.details([("does not parse", reason)] if reason is not None else list(row.items()))
    if not run.out.json:
        bad = sum(each.reason is not None for each in outcomes)
        run.out.text(f"{show_count(len(outcomes), 'line')}: {show_count(bad)} do not parse")


def _first_lines(log: Path, count: int, config: Config) -> list[Line]:
    """The first lines of a file, or of standard input, as the agent ships them."""
    data, chunk = bytearray(), b""
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(log) == "-" else log.open("rb") as file:
            while data.count(b"\n") < count and len(data) < min(count * MAX_LINE, _MAX_TRIED):
                if not (chunk := file.read(64 * 1024)):
                    break
                data += chunk
    except OSError as error:
        raise UsageError(f"cannot read {log}: {error.strerror}") from None
    if config.parse.container is None:
        return split_lines(bytes(data), 0, MAX_LINE, final=not chunk)[0][:count]
    rule = Multiline(container=config.parse.container)
    return join_events(bytes(data), 0, MAX_LINE, rule, final=not chunk)[0][:count]


def _read(run: Run, file: Path) -> tuple[Config, Where]:
    """The configuration. Raises `Failure` for flags that its section [source] replaces."""
    from jetspark.logs.job.config_file import read_config  # noqa: PLC0415

    for name in _IN_THE_FILE:
        if getattr(run.settings, name):
            raise Failure(
                f"--{name.replace('_', '-')} has no effect on a job, which runs on several machines",
                f"Set the connection in section [source] of {file.name}",
                Exit.USAGE,
            )
    return read_config(file, servers=run.settings.server, default_servers=os.environ.get("NATS_URL"))


def _log(config: Config) -> Path:
    if config.spark.log is not None:
        return Path(config.spark.log)
    if "://" in config.checkpoint:
        return Path(tempfile.mkdtemp(prefix="jetspark-")) / "spark.log"
    return Path(config.checkpoint) / "spark.log"


def _plan(config: Config, where: Where) -> str:
    require("pyspark", "the job", "spark")
    from jetspark.logs.job.job import Job  # noqa: PLC0415 - loads Spark
    from jetspark.logs.job.session import start_session, stop_session  # noqa: PLC0415

    spark = start_session(config, _log(config))
    try:
        return Job(spark, config, where).plan()
    finally:
        stop_session(spark)


def _summary(config: Config) -> str:
    source = config.source.options()["stream"]
    counted = f", counted by {config.counts.window}" if config.counts else ""
    return f"{source} as {config.parse.format}{counted} to {config.sink.format}"


def _pairs(config: Config) -> list[tuple[str, object]]:
    source, counts, partitions = config.source.options(), config.counts, config.sink.partitions(config)
    start = source.get("startingPosition") or source.get("startingTimestamp")
    return [
        ("Name", config.name),
        ("Servers", source.get("servers")),
        ("Streams", source["stream"].split(",")),
        ("Subjects", config.source.subjects or None),
        ("Start", start),
        ("Format", config.parse.format),
        ("Columns", list(config.row_columns)),
        ("Counts", f"{counts.window}, watermark {counts.watermark}" if counts else None),
        ("Counted by", counts.by if counts else None),
        ("Sink", f"{config.sink.format} {config.sink.destination}".strip()),
        ("Written", list(config.written_columns) if counts else None),
        ("Divided by", None if partitions is None else list(partitions)),
        ("Dead letters", config.dead_letters.subject or "dropped"),
        ("Trigger", config.trigger),
        ("Checkpoint", config.checkpoint),
        ("Master", config.spark.master),
    ]


class _LiveLine:
    """Shows the last batch: on a terminal in one line that is updated, elsewhere a line for each."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._status: Any = None

    def __enter__(self) -> Self:
        if self._out.animated and not self._out.json:
            from rich.console import Console  # noqa: PLC0415 - loaded when something is shown

            self._status = Console(stderr=True, highlight=False, markup=False).status("Waiting for lines")
            self._status.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, progress: BatchProgress) -> None:
        """Show a finished batch."""
        line = _describe(progress)
        if self._status is not None:
            self._status.update(line)
        else:
            self._out.text(line)


def _describe(progress: BatchProgress) -> str:
    lag = "?" if progress.lag is None else show_count(progress.lag)
    lines = show_count(progress.lines, "line")
    return (
        f"{progress.query} {progress.batch}: {lines} in {progress.seconds:.1f} s, "
        f"{progress.lines_per_second:,.0f}/s; total {show_count(progress.total_rows, 'row')}, "
        f"{show_count(progress.total_dead_letters, 'dead letter')}; lag {lag}"
    )
