"""`jetspark server check`: one line and an exit code, as monitoring systems want them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import typer

from jetspark.cli.args.parameters import duration_option, option
from jetspark.cli.args.units import show_duration
from jetspark.cli.command import Run, command
from jetspark.cli.commands.server.command import app
from jetspark.cli.complete import consumer_option, stream_option
from jetspark.cli.ui.failure import Exit, Failure, describe
from jetspark.errors import Error, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import AccountInfo


class Level(enum.IntEnum):
    """The exit codes that monitoring systems expect."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


class _Finding(NamedTuple):
    level: Level
    text: str


class _Thresholds(NamedTuple):
    """The lowest values of a warning and of a critical finding."""

    warning: float
    critical: float

    def level(self, value: float) -> Level:
        if value >= self.critical:
            return Level.CRITICAL
        return Level.WARNING if value >= self.warning else Level.OK


class _CheckReport:
    """Findings, and values for graphs."""

    def __init__(self) -> None:
        self.findings: list[_Finding] = []
        self.values: dict[str, float] = {}

    def measure(self, name: str, value: float, limits: _Thresholds, show: Callable[[float], str]) -> None:
        self.values[name] = value
        self.findings.append(_Finding(limits.level(value), f"{name} {show(value)}"))

    def add(self, level: Level, text: str) -> None:
        self.findings.append(_Finding(level, text))

    @property
    def level(self) -> Level:
        return max((finding.level for finding in self.findings), default=Level.OK)

    def line(self) -> str:
        """The findings of the highest level, and the values in the format of plug-ins of Nagios."""
        worst = [finding.text for finding in self.findings if finding.level is self.level]
        values = " ".join(f"{name.replace(' ', '_')}={value:g}" for name, value in self.values.items())
        return f"{self.level.name}: {', '.join(worst) or 'fine'}{f' | {values}' if values else ''}"


@command(
    app,
    "check",
    examples="""
    jetspark server check
    jetspark server check --stream ORDERS --stale 10m --min-messages 1
    jetspark server check --stream ORDERS --consumer billing --pending-critical 10000
    """,
)
async def check(
    run: Run,
    *,
    rtt_warn: Annotated[
        float | None, duration_option("--rtt-warn", help="Warn at this round trip (100ms).")
    ] = None,
    rtt_critical: Annotated[
        float | None, duration_option("--rtt-critical", help="Critical at this round trip (500ms).")
    ] = None,
    usage_warn: Annotated[
        int, typer.Option("--usage-warn", metavar="PERCENT", help="Warn at this share of a limit.")
    ] = 75,
    usage_critical: Annotated[
        int, typer.Option("--usage-critical", metavar="PERCENT", help="Critical at this share of a limit.")
    ] = 90,
    stream: Annotated[str | None, stream_option("Check this stream, too.")] = None,
    min_messages: Annotated[
        int | None, option("--min-messages", metavar="NUMBER", help="Critical below this many messages.")
    ] = None,
    stale: Annotated[
        float | None, duration_option("--stale", help="Critical if the last message is older.")
    ] = None,
    consumer: Annotated[str | None, consumer_option("Check this consumer of the stream, too.")] = None,
    pending_warn: Annotated[
        int | None, option("--pending-warn", metavar="NUMBER", help="Warn at this many unprocessed messages.")
    ] = None,
    pending_critical: Annotated[
        int | None,
        option("--pending-critical", metavar="NUMBER", help="Critical at this many unprocessed messages."),
    ] = None,
) -> None:
    """Check a server, the limits of the account, a stream and a consumer, for a monitoring system.

    Prints one line. The exit code is 0 for OK, 1 for a warning, 2 for critical, an unreachable server
    included.
    """
    if consumer is not None and stream is None:
        raise Failure("--consumer needs --stream", code=Exit.USAGE)
    report = _CheckReport()
    infinite = float("inf")
    try:
        async with run.jetstream() as js:
            rtt = _Thresholds(rtt_warn or 0.1, rtt_critical or 0.5)
            report.measure("rtt", await js.connection.rtt(), rtt, show_duration)
            _check_account(report, await js.account_info(), _Thresholds(usage_warn, usage_critical))
            if stream is not None:
                await _check_stream(report, js, stream, min_messages, stale)
            if stream is not None and consumer is not None:
                pending = _Thresholds(
                    infinite if pending_warn is None else pending_warn,
                    infinite if pending_critical is None else pending_critical,
                )
                await _check_consumer(report, js, stream, consumer, pending)
    except UsageError:
        raise  # The command is wrong, not the server.
    except (Failure, Error) as error:
        report.add(Level.CRITICAL, describe(error)[0])
    if run.out.json:
        findings = [{"level": each.level.name, "text": each.text} for each in report.findings]
        run.out.value({"status": report.level.name, "findings": findings, "values": report.values})
    else:
        run.out.text(report.line())
    raise typer.Exit(int(report.level))


def _check_account(report: _CheckReport, account: AccountInfo, limits: _Thresholds) -> None:
    for usage in account.usages():
        if usage.limit > 0:
            name = " ".join(filter(None, (usage.resource, usage.tier, "used")))
            report.measure(name, 100 * usage.share, limits, lambda value: f"{value:.0f} %")


async def _check_stream(
    report: _CheckReport, js: JetStream, stream: str, min_messages: int | None, stale: float | None
) -> None:
    info = await (await js.get_stream(stream)).info()
    state = info.state
    too_few = min_messages is not None and state.messages < min_messages
    report.values["messages"] = state.messages
    report.add(Level.CRITICAL if too_few else Level.OK, f"{state.messages} messages")
    if stale is not None:
        age = (datetime.now(UTC) - state.last_ts).total_seconds() if state.last_ts else float("inf")
        text = f"last message {show_duration(age)} ago" if state.last_ts else "no message yet"
        report.add(Level.CRITICAL if age > stale else Level.OK, text)
    for peer in info.cluster.replicas if info.cluster else ():
        if peer.offline or not peer.current:
            report.add(Level.CRITICAL, f"replica {peer.name} {'offline' if peer.offline else 'behind'}")


async def _check_consumer(
    report: _CheckReport, js: JetStream, stream: str, consumer: str, pending: _Thresholds
) -> None:
    info = await js.consumer_info(stream, consumer)
    report.measure("unprocessed", info.num_pending, pending, lambda value: f"{value:.0f}")
    report.values["ack pending"] = info.num_ack_pending
    if info.paused:
        report.add(Level.WARNING, f"consumer {consumer} is paused")
