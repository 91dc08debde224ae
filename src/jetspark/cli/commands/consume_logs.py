"""`jetspark consume-logs`: each host's lines in its own file, for those without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from jetspark.cli.args.parameters import Metrics, StreamName, checked, option, period, words
from jetspark.cli.args.units import show_bytes, show_count, show_rate, size
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import plain
from jetspark.cli.ui.signals import every, stopped_by_signals
from jetspark.errors import ConsumerNotFound
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.logs.files.consumer import ConsumeOptions, LogConsumer, LogStatus
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
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files of the hosts go.")],
    *,
    consumer: Annotated[
        str, typer.Option("--consumer", metavar="NAME", help="Durable consumer; made if it is not there.")
    ] = "log-files",
    filter: Annotated[
        list[str] | None,
        option("--filter", metavar="SUBJECT", help="Only these, for a consumer that is made (all)."),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="NUMBER", min=1, help="Write and sync so many at a time.")
    ] = 1000,
    ack_wait: Annotated[
        float | None,
        period(
            "--ack-wait",
            help="Deliver again what is not acknowledged for so long, for a consumer that is made (30s).",
        ),
    ] = None,
    nak_delay: Annotated[
        float | None,
        period("--nak-delay", help="How long what did not fit on the disk stays away (5s)."),
    ] = None,
    acks_all: Annotated[
        bool, typer.Option("--ack-all", help="Acknowledge the last of many instead of each.")
    ] = False,
    ack_every: Annotated[
        int, typer.Option("--ack-every", metavar="NUMBER", min=1, help="With --ack-all, after so many.")
    ] = 1000,
    ack_interval: Annotated[
        float | None,
        period("--ack-interval", help="With --ack-all, after so long at the latest (5s)."),
    ] = None,
    rotate_size: Annotated[
        int | None,
        option(
            "--rotate-size", metavar="SIZE", parser=checked(size), help="Rotate files before they are larger."
        ),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", metavar="NUMBER", min=0, help="Rotated files to keep.")] = 5,
    once: Annotated[bool, typer.Option("--once", help="Write what is there, and end.")] = False,
    metrics: Metrics = None,
) -> None:
    """Write the lines of each host to its own file, and acknowledge them when they are on the disk.

    After a crash lines may be written twice, but none is lost. Ctrl-C and SIGTERM end it with exit code 0.
    """
    async with run.jetstream() as js:
        config = ConsumerConfig(
            durable_name=consumer,
            ack_policy=AckPolicy.ALL if acks_all else AckPolicy.EXPLICIT,
            ack_wait=30.0 if ack_wait is None else ack_wait,
            filter_subjects=words(filter),
            max_ack_pending=max(20_000, 2 * batch, 2 * ack_every),
        )
        found = await _consumer(js, stream, config, ack_interval or 0.0)
        options = ConsumeOptions(
            batch=batch,
            nak_delay=5.0 if nak_delay is None else nak_delay,
            ack_every=ack_every,
            # What the consumer has says how long it may take, not what it would be made with.
            ack_interval=min(5.0, (found.config.ack_wait or 30.0) / 3)
            if ack_interval is None
            else ack_interval,
            once=once,
        )
        directory.mkdir(parents=True, exist_ok=True)
        files = LogFiles(directory, rotate_size=rotate_size, keep=keep)
        writer = LogConsumer(js, found, files, options, run.out.warn)
        began = time.monotonic()

        def show() -> None:
            _show(run, writer.status, time.monotonic() - began)

        with stopped_by_signals(writer.stop), every(10.0 if metrics is None else metrics, show):
            await writer.run()
        show()


async def _consumer(js: JetStream, stream: str, config: ConsumerConfig, ack_interval: float) -> Consumer:
    """The durable consumer, as it is or as it is asked for."""
    name = str(config.durable_name)
    try:
        found = await js.get_consumer(stream, name)
    except ConsumerNotFound:
        if config.ack_policy == AckPolicy.ALL and ack_interval >= (config.ack_wait or 0.0):
            raise Failure("--ack-interval must be less than --ack-wait", code=Exit.USAGE) from None
        return await js.create_consumer(stream, config)
    if found.config.ack_policy != config.ack_policy:
        raise Failure(
            f"consumer {stream} > {name} acknowledges {found.config.ack_policy}, not {config.ack_policy}",
            "Take another --consumer, or say --ack-all if it is one",
            Exit.USAGE,
        )
    return found


def _show(run: Run, status: LogStatus, seconds: float) -> None:
    if run.out.json:
        run.out.record({**plain(status), "seconds": round(seconds, 3)})
        return
    run.out.text(
        f"{status.state}: {show_count(status.lines)} lines, {show_bytes(status.bytes)} of "
        f"{show_count(status.hosts)} hosts, {show_rate(status.lines, seconds)} lines/s, "
        f"{show_count(status.redelivered)} came again, {show_count(status.naked)} sent back, "
        f"{show_count(status.terminated)} given up"
    )
