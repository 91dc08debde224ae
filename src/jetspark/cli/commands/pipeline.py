"""`jetspark pipeline`: the Spark job that turns shipped lines into tables, from one file."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command, group
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.live import Live
from jetspark.errors import Error, UsageError

if TYPE_CHECKING:
    from jetspark.logs.job.config import Config
    from jetspark.logs.job.runner import BatchProgress, Runner
    from jetspark.logs.job.toml_lines import Where

app = group("The Spark job of the log pipeline: lines from JetStream become tables.")

PipelineFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The file, pipeline.toml.")]

_CODES: Final = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@command(app, "check", examples="jetspark pipeline check pipeline.toml")
def check(run: Run, file: PipelineFile) -> None:
    """Check a file, without Spark and without a server.

    A mistake is told with its line and key, and the exit code is 2.
    """
    config, _ = _read(run, file)
    if run.out.json:
        run.out.value({"file": str(file), "name": config.name, "ok": True})
    else:
        run.out.text(f"{file} is right: {config.name}, {_way(config)}")


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
    plan: Annotated[bool, typer.Option("--plan", help="Start Spark, and show its plan too.")] = False,
) -> None:
    """Show what would run: source, format, columns, sink. With --plan, the SQL is checked as well."""
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
    once: Annotated[bool, typer.Option("--once", help="Read what is there, then end.")] = False,
) -> None:
    """Run the job: until Ctrl-C or SIGTERM, which let it finish its batch; the second time, at once.

    With trigger available-now or once, and with --once, it ends by itself.
    """
    config, where = _read(run, file)
    _check_spark()
    from jetspark.logs.job.job import Job  # noqa: PLC0415 - loads Spark
    from jetspark.logs.job.preflight import check_server  # noqa: PLC0415
    from jetspark.logs.job.runner import Runner  # noqa: PLC0415
    from jetspark.logs.job.session import start_session, stop_session  # noqa: PLC0415

    outputs = check_server(config, where)
    log = _log(config)
    run.out.note(f"Starting Spark ({config.spark.master}), which logs to {log}")
    spark = start_session(config, log)
    live = Live(run.out)

    def tell(progress: BatchProgress) -> None:
        if run.out.json:
            run.out.record(dataclasses.asdict(progress))
        else:
            live.show(progress)

    runner = Runner(Job(spark, config, where), tell)
    try:
        with live, _stopped_by_signals(runner) as received:
            runner.run(outputs, once=once)
    except UsageError:
        raise  # Of the file, with line and key.
    except Error as error:
        log_is = f"Spark's log is {log}"
        raise Failure(str(error.args[0]), f"{error.hint}. {log_is}" if error.hint else log_is) from error
    finally:
        stop_session(spark)
    totals = runner.totals
    if not run.out.json:
        run.out.text(
            f"{show_count(totals['lines'])} lines: {show_count(totals['rows'])} rows written, "
            f"{show_count(totals['dead_letters'])} dead letters"
        )
    if received:
        raise typer.Exit(_CODES[received[0]])


@contextmanager
def _stopped_by_signals(runner: Runner) -> Iterator[list[signal.Signals]]:
    """Let signals stop the job; the list has those that came. Spark would cancel what runs at Ctrl-C."""
    received: list[signal.Signals] = []

    def stop(number: int, _: FrameType | None) -> None:
        (runner.stop_now if received else runner.stop).set()
        received.append(signal.Signals(number))

    before = {number: signal.signal(number, stop) for number in _CODES}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(run: Run, file: Path) -> tuple[Config, Where]:
    from jetspark.logs.job.config_file import read_config  # noqa: PLC0415

    return read_config(file, servers=run.settings.server, default_servers=os.environ.get("NATS_URL"))


def _check_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("the job needs Spark", "Install it with `pip install 'jetspark[spark]'`")


def _log(config: Config) -> Path:
    if config.spark.log is not None:
        return Path(config.spark.log)
    if "://" in config.checkpoint:
        return Path(tempfile.mkdtemp(prefix="jetspark-")) / "spark.log"
    return Path(config.checkpoint) / "spark.log"


def _plan(config: Config, where: Where) -> str:
    _check_spark()
    from jetspark.logs.job.job import Job  # noqa: PLC0415 - loads Spark
    from jetspark.logs.job.session import start_session, stop_session  # noqa: PLC0415

    spark = start_session(config, _log(config))
    try:
        return Job(spark, config, where).plan()
    finally:
        stop_session(spark)


def _way(config: Config) -> str:
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
        ("Divided by", None if partitions is None else [*partitions, "batch"]),
        ("Dead letters", config.dead_letters.subject or "dropped"),
        ("Trigger", config.trigger),
        ("Checkpoint", config.checkpoint),
        ("Master", config.spark.master),
    ]
