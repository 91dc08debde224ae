"""`jetspark ship`: the agent, in the foreground."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import Metrics, checked, one_of, option, period, words
from jetspark.cli.args.units import show_bytes, show_count, show_rate, size
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import plain
from jetspark.cli.ui.signals import every, stopped_by_signals
from jetspark.errors import StreamNameInUse, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.logs.agent.agent import Agent, AgentStatus
from jetspark.logs.agent.discovery import COMPRESSED
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
            help="Files or patterns in quotes, with ** for any depth; without, stdin.",
            show_default=False,
        ),
    ] = None,
    *,
    host: Annotated[
        str | None, option("--host", metavar="NAME", help="Who this is (the name of the machine).")
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="SUBJECT", help="Ship to PREFIX.PARTITION.HOST.")
    ] = "logs",
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="NUMBER", help="Hosts are sorted into so many.")
    ] = 16,
    create: Annotated[
        str | None,
        option("--create", metavar="STREAM", help="Create this stream for the prefix, if it is not there."),
    ] = None,
    positions: Annotated[
        Path | None,
        option("--positions", metavar="FILE", help="Where it is noted how far files are shipped."),
    ] = None,
    from_end: Annotated[
        bool,
        typer.Option("--from-end/--from-start", help="Where files begin when there are no positions yet."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Ship what is there, and end.")] = False,
    exclude: Annotated[
        list[str] | None,
        option("--exclude", metavar="PATTERN", help="Names to leave out (compressed files)."),
    ] = None,
    max_line: Annotated[
        int | None,
        option("--max-line", metavar="SIZE", parser=checked(size), help="Cut longer lines (256KB)."),
    ] = None,
    compress: Annotated[
        str | None,
        option("--compress", metavar="WORD", parser=one_of(*ENCODINGS), help="Compress: gzip or zstd."),
    ] = None,
    window: Annotated[
        int, typer.Option("--window", metavar="NUMBER", help="Messages under way at most.")
    ] = 4096,
    close_after: Annotated[
        float | None,
        period(
            "--close-after",
            help="Close files that were renamed or deleted when nothing came for so long (1m).",
        ),
    ] = None,
    metrics: Metrics = None,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="Obey `jetspark pause`, and report to it.")
    ] = True,
) -> None:
    """Follow log files and ship their lines into JetStream, each line once.

    Positions are noted when the stream has the lines. Ctrl-C and SIGTERM end it with exit code 0, after
    what is under way was acknowledged. While the server is away it waits, for as long as it takes; with
    --once it fails.
    """
    options = ShipOptions(
        patterns=files or [],
        exclude=words(exclude) if exclude else COMPRESSED,
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
    async with _connected(run, patient=not once) as js:
        if create is not None:
            await _create(js, create, prefix)
        agent = Agent(js, options, run.out.warn)
        began = time.monotonic()

        def show() -> None:
            _show(run, agent.status(), time.monotonic() - began)

        with stopped_by_signals(agent.stop), every(10.0 if metrics is None else metrics, show):
            await agent.run()
        show()


class _connected:
    """JetStream; one who is patient waits for the server."""

    def __init__(self, run: Run, *, patient: bool) -> None:
        self._run = run
        self._patient = patient
        self._context: Any = None

    async def __aenter__(self) -> JetStream:
        waited = False
        while True:
            self._context = self._run.jetstream()
            try:
                js: JetStream = await self._context.__aenter__()
            except Failure as failure:
                if not self._patient or failure.code != Exit.UNREACHABLE:
                    raise
                if not waited:
                    self._run.out.warn(f"waiting for the server: {failure}")
                waited = True
                await asyncio.sleep(1.0)
            else:
                return js

    async def __aexit__(self, *exc: Any) -> None:
        await self._context.__aexit__(*exc)


async def _create(js: JetStream, name: str, prefix: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{prefix}.>"], allow_direct=True)
    try:
        await js.create_stream(config)
    except StreamNameInUse:
        stream = await js.get_stream(name)
        if f"{prefix}.>" not in stream.config.subjects:
            raise UsageError(
                f"stream {name} is there and does not store {prefix}.>", hint="Use another name or --prefix"
            ) from None


def _show(run: Run, status: AgentStatus, seconds: float) -> None:
    if run.out.json:
        run.out.record({**plain(status), "seconds": round(seconds, 3)})
        return
    run.out.text(
        f"{status.state}: {show_count(status.lines)} lines, {show_bytes(status.bytes)} of "
        f"{show_count(status.files)} files stored, {show_rate(status.lines, seconds)} lines/s, "
        f"{show_count(status.under_way)} under way, {show_bytes(status.behind)} behind"
    )
