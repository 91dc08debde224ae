"""`jetspark ship`: the log agent, in the foreground."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import (
    Metrics,
    OpenTelemetry,
    choice_option,
    comma_separated,
    duration_option,
    option,
    size_option,
)
from jetspark.cli.args.units import show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.long_running import LogFormat, LoopSource, MetricsAddress, MetricsPort, serve_metrics
from jetspark.cli.tracing import traced
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.signals import run_until_stopped
from jetspark.errors import StreamNameInUse, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.logs.agent.agent import Agent, AgentStatus
from jetspark.logs.agent.config_file import read_ship_file
from jetspark.logs.agent.containers import CONTAINERS
from jetspark.logs.agent.multiline import PRESETS, Multiline
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.report import agent_name, agent_samples
from jetspark.logs.compression import ENCODINGS

app = single()

#: Options that belong to an input, and so to the file of `--config`.
_OF_INPUTS = ("patterns", "exclude", "prefix", "multiline")


@command(
    app,
    "ship",
    examples="""
    jetspark ship '/var/log/nginx/*.log' --create LOGS
    jetspark ship 'logs/**/*.log' --host web1 --from-end --metrics 30s
    jetspark ship app.log --once --json
    jetspark ship 'app/*.log' --multiline java
    jetspark ship '/var/log/pods/**/*.log*' --container cri
    jetspark ship --config shipper.toml
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
    config: Annotated[
        Path | None,
        option("--config", metavar="FILE", help="Read inputs and options from this file, as TOML."),
    ] = None,
    prefix: Annotated[
        str | None, option("--prefix", metavar="SUBJECT", help="Publish to PREFIX.PARTITION.HOST (logs).")
    ] = None,
    partitions: Annotated[
        int | None,
        option("--partitions", metavar="NUMBER", help="Number of partitions that hosts are hashed to (16)."),
    ] = None,
    create: Annotated[
        str | None,
        option("--create", metavar="STREAM", help="Create this stream for the prefix if it is missing."),
    ] = None,
    positions: Annotated[
        Path | None,
        option("--positions", metavar="FILE", help="File that records how far each log was shipped."),
    ] = None,
    from_end: Annotated[
        bool | None,
        option(
            "--from-end/--from-start", help="Where to start in files without a recorded position (start)."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Ship the existing lines, then stop.")] = False,
    exclude: Annotated[
        list[str] | None,
        option("--exclude", metavar="PATTERN", help="File names to skip (compressed files)."),
    ] = None,
    max_line: Annotated[
        int | None, size_option("--max-line", help="Split longer lines into pieces (256KB).")
    ] = None,
    compress: Annotated[
        str | None, choice_option("--compress", choices=ENCODINGS, help="Compress the messages.")
    ] = None,
    multiline: Annotated[
        str | None,
        choice_option(
            "--multiline", choices=tuple(PRESETS), help="Join stack traces or JSON documents to one message."
        ),
    ] = None,
    multiline_start: Annotated[
        str | None,
        option("--multiline-start", metavar="REGEX", help="Begin an event at each line that matches."),
    ] = None,
    multiline_continue: Annotated[
        str | None,
        option("--multiline-continue", metavar="REGEX", help="Join each matching line to the one before."),
    ] = None,
    multiline_timeout: Annotated[
        float | None,
        duration_option("--multiline-timeout", help="End an event after this long without new lines (3s)."),
    ] = None,
    multiline_lines: Annotated[
        int | None,
        option("--multiline-lines", metavar="NUMBER", help="Cut an event after this many lines (1000)."),
    ] = None,
    container: Annotated[
        str | None,
        choice_option(
            "--container", choices=tuple(CONTAINERS), help="Join the partial lines of a container runtime."
        ),
    ] = None,
    window: Annotated[
        int | None, option("--window", metavar="NUMBER", help="Maximum messages in flight (4096).")
    ] = None,
    close_after: Annotated[
        float | None,
        duration_option(
            "--close-after", help="Close a renamed or deleted file after this long without new lines (1m)."
        ),
    ] = None,
    metrics: Metrics = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = None,
    log_format: LogFormat = None,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="Obey `jetspark pause`, and report status.")
    ] = True,
    otel: OpenTelemetry = False,
) -> None:
    """Follow log files and publish their lines to JetStream, each line once.

    A position is recorded once the stream has acknowledged the lines before it. Ctrl-C and SIGTERM stop the
    agent with exit code 0, after the messages in flight are acknowledged. The agent waits for an unreachable
    server without limit; with --once it fails.
    """
    rule = _rule(
        {
            "preset": multiline,
            "start": multiline_start,
            "continuation": multiline_continue,
            "container": container,
            "timeout": multiline_timeout,
            "max_lines": multiline_lines,
        }
    )
    given: dict[str, Any] = {
        "patterns": files or None,
        "exclude": comma_separated(exclude) if exclude else None,
        "prefix": prefix,
        "multiline": rule,
        "host": host,
        "partitions": partitions,
        "positions": positions,
        "from_end": from_end,
        "max_line": max_line,
        "compress": compress,
        "window": window,
        "close_after": close_after,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if config is not None:
        if of_inputs := [name for name in _OF_INPUTS if name in given]:
            raise UsageError(
                f"--config and {of_inputs[0]} exclude each other",
                hint=f"Set it for the inputs in {config.name}",
            )
        file = read_ship_file(config)
        given, create = {**file.options, **given}, create or file.create
    options = ShipOptions(**given, once=once or not (files or config), control=control)
    async with run.jetstream(wait=not once) as js:
        if create is not None:
            await _create(js, create, options)
        with traced(js.connection, "jetspark-ship", on=otel) as tracing:
            agent = Agent(js, options, run.out.warn, tracing=tracing)
            source = LoopSource(lambda: agent_samples(agent_name(options), agent.status()))
            await run_until_stopped(
                agent.run(),
                agent.stop,
                around=serve_metrics(run.out, metrics_port, metrics_address, source, js.connection),
                report=lambda seconds: _show(run, agent.status(), seconds),
                interval=metrics,
            )


async def _create(js: JetStream, name: str, options: ShipOptions) -> None:
    prefixes = dict.fromkeys(each.prefix for each in options.inputs or (options.one_input,))
    # A stream may not have subjects that overlap.
    subjects = [
        f"{each}.>" for each in prefixes if not any(each.startswith(f"{other}.") for other in prefixes)
    ]
    try:
        await js.create_stream(StreamConfig(name=name, subjects=subjects, allow_direct=True))
    except StreamNameInUse:
        stream = await js.get_stream(name)
        if missing := [each for each in subjects if each not in stream.config.subjects]:
            raise UsageError(
                f"stream {name} exists and does not store {missing[0]}", hint="Use another name or --prefix"
            ) from None


def _rule(options: Mapping[str, Any]) -> Multiline | None:
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return None
    if given.keys() <= {"timeout", "max_lines"}:
        raise UsageError("--multiline-timeout and --multiline-lines require a multi-line rule")
    try:
        return Multiline(**given)
    except UsageError as error:
        text = str(error.args[0]).replace("multi-line timeout", "--multiline-timeout")
        raise UsageError(text.replace("multi-line max_lines", "--multiline-lines"), hint=error.hint) from None


def _show(run: Run, status: AgentStatus, seconds: float) -> None:
    if run.out.json:
        run.out.record({**to_json(status), "seconds": round(seconds, 3)})
        return
    run.out.text(
        f"{status.state}: {show_count(status.lines, 'line')}, {show_bytes(status.bytes)} of "
        f"{show_count(status.files, 'file')} stored, {show_rate(status.lines, seconds)} lines/s, "
        f"{show_count(status.in_flight)} in flight, {show_bytes(status.behind)} behind"
    )
