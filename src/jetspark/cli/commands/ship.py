"""`jetspark ship`: the log agent, in the foreground."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from jetspark.cli.args.parameters import (
    Metrics,
    choice_option,
    comma_separated,
    duration_option,
    option,
    size_option,
)
from jetspark.cli.args.units import show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.signals import run_until_stopped
from jetspark.errors import StreamNameInUse, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.logs.agent.agent import Agent, AgentStatus
from jetspark.logs.agent.input import COMPRESSED
from jetspark.logs.agent.options import MAX_LINE, ShipOptions, default_positions
from jetspark.logs.compression import ENCODINGS

app = single()


@command(
    app,
    "ship",
    examples="""
    jetspark ship '/var/log/nginx/*.log' --create LOGS
    jetspark ship 'logs/**/*.log' --host web1 --from-end --metrics 30s
    jetspark ship app.log --once --json
    journalctl -f | jetspark ship --host db1
    """,
)
async def ship(
    run: Run,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...",
            help="Files, or quoted patterns with ** for any depth; stdin by default.",
            show_default=False,
        ),
    ] = None,
    *,
    host: Annotated[
        str | None, option("--host", metavar="NAME", help="Host name in the subject (this machine's).")
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="SUBJECT", help="Publish to PREFIX.PARTITION.HOST.")
    ] = "logs",
    partitions: Annotated[
        int,
        typer.Option("--partitions", metavar="NUMBER", help="Number of partitions that hosts are hashed to."),
    ] = 16,
    create: Annotated[
        str | None,
        option("--create", metavar="STREAM", help="Create this stream for the prefix if it is missing."),
    ] = None,
    positions: Annotated[
        Path | None,
        option("--positions", metavar="FILE", help="File that records how far each log was shipped."),
    ] = None,
    from_end: Annotated[
        bool,
        typer.Option("--from-end/--from-start", help="Where to start in files without a recorded position."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Ship the existing lines, then stop.")] = False,
    exclude: Annotated[
        list[str] | None,
        option("--exclude", metavar="PATTERN", help="File names to skip (compressed files)."),
    ] = None,
    max_line: Annotated[int | None, size_option("--max-line", help="Truncate longer lines (256KB).")] = None,
    compress: Annotated[
        str | None, choice_option("--compress", choices=ENCODINGS, help="Compress the messages.")
    ] = None,
    window: Annotated[
        int, typer.Option("--window", metavar="NUMBER", help="Maximum messages in flight.")
    ] = 4096,
    close_after: Annotated[
        float | None,
        duration_option(
            "--close-after", help="Close a renamed or deleted file after this long without new lines (1m)."
        ),
    ] = None,
    metrics: Metrics = None,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="Obey `jetspark pause`, and report status.")
    ] = True,
) -> None:
    """Follow log files and publish their lines to JetStream, each line once.

    A position is recorded once the stream has acknowledged the lines before it. Ctrl-C and SIGTERM stop the
    agent with exit code 0, after the messages in flight are acknowledged. The agent waits for an unreachable
    server without limit; with --once it fails.
    """
    options = ShipOptions(
        patterns=files or [],
        exclude=comma_separated(exclude) if exclude else COMPRESSED,
        host=host or socket.gethostname(),
        prefix=prefix,
        partitions=partitions,
        positions=positions or default_positions(),
        from_end=from_end,
        once=once or not files,
        max_line=MAX_LINE if max_line is None else max_line,
        compress=compress or "",
        window=window,
        close_after=60.0 if close_after is None else close_after,
        control=control,
    )
    async with _connected(run, wait=not once) as js:
        if create is not None:
            await _create(js, create, prefix)
        agent = Agent(js, options, run.out.warn)
        await run_until_stopped(
            agent.run(),
            agent.stop,
            report=lambda seconds: _show(run, agent.status(), seconds),
            interval=metrics,
        )


@asynccontextmanager
async def _connected(run: Run, *, wait: bool) -> AsyncIterator[JetStream]:
    """JetStream. With `wait`, an unreachable server is tried again every second."""
    async with AsyncExitStack() as stack:
        warned = False
        while True:
            try:
                js = await stack.enter_async_context(run.jetstream())
                break
            except Failure as failure:
                if not wait or failure.code != Exit.UNREACHABLE:
                    raise
                if not warned:
                    run.out.warn(f"waiting for the server: {failure}")
                warned = True
                await asyncio.sleep(1.0)
        yield js


async def _create(js: JetStream, name: str, prefix: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{prefix}.>"], allow_direct=True)
    try:
        await js.create_stream(config)
    except StreamNameInUse:
        stream = await js.get_stream(name)
        if f"{prefix}.>" not in stream.config.subjects:
            raise UsageError(
                f"stream {name} exists and does not store {prefix}.>", hint="Use another name or --prefix"
            ) from None


def _show(run: Run, status: AgentStatus, seconds: float) -> None:
    if run.out.json:
        run.out.record({**to_json(status), "seconds": round(seconds, 3)})
        return
    run.out.text(
        f"{status.state}: {show_count(status.lines)} lines, {show_bytes(status.bytes)} of "
        f"{show_count(status.files)} files stored, {show_rate(status.lines, seconds)} lines/s, "
        f"{show_count(status.under_way)} in flight, {show_bytes(status.behind)} behind"
    )
