"""`jetspark consume-logs`: the log lines of each host, written to files without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jetspark.cli.args.parameters import (
    Metrics,
    OpenTelemetry,
    comma_separated,
    duration_option,
    option,
    size_option,
)
from jetspark.cli.args.units import show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.complete import StreamName
from jetspark.cli.long_running import LogFormat, LoopSource, MetricsAddress, MetricsPort, serve_metrics
from jetspark.cli.tracing import traced
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.signals import run_until_stopped
from jetspark.errors import ConsumerNotFound
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.logs.files.consumer import ConsumeOptions, LogConsumer, LogStatus, log_writer_samples
from jetspark.logs.files.files import LogFiles

app = single()


@command(
    app,
    "consume-logs",
    examples="""
    jetspark consume-logs LOGS /srv/logs
    jetspark consume-logs LOGS ./out --filter 'logs.3.>' --rotate-size 100MB --keep 10
    jetspark consume-logs LOGS ./out --ack-all --ack-every 5000 --ack-interval 2s
    jetspark consume-logs LOGS ./out --once --json
    """,
)
async def consume_logs(
    run: Run,
    stream: StreamName,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Directory of the files.")],
    *,
    consumer: Annotated[
        str, typer.Option("--consumer", metavar="NAME", help="Durable consumer; created if missing.")
    ] = "log-files",
    filter: Annotated[
        list[str] | None,
        option("--filter", metavar="SUBJECT", help="Only these subjects, for a new consumer (all)."),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="NUMBER", min=1, help="Messages to write and sync at a time.")
    ] = 1000,
    ack_wait: Annotated[
        float | None,
        duration_option(
            "--ack-wait", help="Time until redelivery without acknowledgement, for a new consumer (30s)."
        ),
    ] = None,
    nak_delay: Annotated[
        float | None,
        duration_option("--nak-delay", help="Delay before redelivery when the disk is full (5s)."),
    ] = None,
    acks_all: Annotated[
        bool, typer.Option("--ack-all", help="Acknowledge many messages at once instead of each.")
    ] = False,
    ack_every: Annotated[
        int,
        typer.Option(
            "--ack-every", metavar="NUMBER", min=1, help="With --ack-all: after this many messages."
        ),
    ] = 1000,
    ack_interval: Annotated[
        float | None,
        duration_option("--ack-interval", help="With --ack-all: after this long at the latest (5s)."),
    ] = None,
    rotate_size: Annotated[
        int | None, size_option("--rotate-size", help="Rotate a file before it exceeds this size.")
    ] = None,
    keep: Annotated[
        int, typer.Option("--keep", metavar="NUMBER", min=0, help="Number of rotated files to keep.")
    ] = 5,
    once: Annotated[bool, typer.Option("--once", help="Write the stored messages, then stop.")] = False,
    metrics: Metrics = None,
    otel: OpenTelemetry = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = None,
    log_format: LogFormat = None,
) -> None:
    """Write the log lines of each host to its own file, and acknowledge them once they are on disk.

    After a crash some lines may be written twice, but none is lost. Ctrl-C and SIGTERM stop it with exit
    code 0. It waits for an unreachable server without limit; with --once it fails.
    """
    async with run.jetstream(wait=not once) as js:
        config = ConsumerConfig(
            durable_name=consumer,
            ack_policy=AckPolicy.ALL if acks_all else AckPolicy.EXPLICIT,
            ack_wait=30.0 if ack_wait is None else ack_wait,
            filter_subjects=comma_separated(filter),
            max_ack_pending=max(20_000, 2 * batch, 2 * ack_every),
        )
        found = await _consumer(js, stream, config, ack_interval or 0.0)
        options = ConsumeOptions(
            batch=batch,
            nak_delay=5.0 if nak_delay is None else nak_delay,
            ack_every=ack_every,
            # The ack wait of an existing consumer counts, not the one a new consumer would get.
            ack_interval=min(5.0, (found.config.ack_wait or 30.0) / 3)
            if ack_interval is None
            else ack_interval,
            once=once,
        )
        directory.mkdir(parents=True, exist_ok=True)
        files = LogFiles(directory, rotate_size=rotate_size, keep=keep)
        with traced(js.connection, "jetspark-consume-logs", on=otel) as tracing:
            writer = LogConsumer(js, found, files, options, run.out.warn, tracing=tracing)
            source = LoopSource(lambda: log_writer_samples(stream, consumer, writer.status))
            await run_until_stopped(
                writer.run(),
                writer.stop,
                around=serve_metrics(run.out, metrics_port, metrics_address, source, js.connection),
                report=lambda seconds: _show(run, writer.status, seconds),
                interval=metrics,
            )


async def _consumer(js: JetStream, stream: str, config: ConsumerConfig, ack_interval: float) -> Consumer:
    """The durable consumer, created if it does not exist."""
    name = str(config.durable_name)
    try:
        found = await js.get_consumer(stream, name)
    except ConsumerNotFound:
        if config.ack_policy == AckPolicy.ALL and ack_interval >= (config.ack_wait or 0.0):
            raise Failure("--ack-interval must be less than --ack-wait", code=Exit.USAGE) from None
        return await js.create_consumer(stream, config)
    if found.config.ack_policy != config.ack_policy:
        raise Failure(
            f"consumer {stream} > {name} has ack policy {found.config.ack_policy}, not {config.ack_policy}",
            "Use another --consumer, or add --ack-all if its policy is all",
            Exit.USAGE,
        )
    return found


def _show(run: Run, status: LogStatus, seconds: float) -> None:
    if run.out.json:
        run.out.record({**to_json(status), "seconds": round(seconds, 3)})
        return
    run.out.text(
        f"{status.state}: {show_count(status.lines, 'line')}, {show_bytes(status.bytes)} of "
        f"{show_count(status.hosts, 'host')}, {show_rate(status.lines, seconds)} lines/s, "
        f"{show_count(status.redelivered)} redelivered, {show_count(status.naked)} sent back, "
        f"{show_count(status.terminated)} terminated"
    )
