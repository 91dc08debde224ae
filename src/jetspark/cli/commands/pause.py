"""`jetspark pause`: pause shippers and consumers, or show what is paused. resume.py uses its functions."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from jetspark.cli.args.parameters import AgentWait, comma_separated, duration_option, option
from jetspark.cli.args.units import show_count, show_duration, show_time
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.jetstream.context import JetStream
from jetspark.logs.control import switch as control
from jetspark.reports.jobs import JobReport, job_state

__all__ = ["app", "named_consumers", "show_state", "wait_for_agents"]

app = single()

#: Seconds between two looks at the reports of the agents.
_INTERVAL: Final = 0.1


@command(
    app,
    "pause",
    examples="""
    jetspark pause
    jetspark pause --for 10m
    jetspark pause --shippers --consumers LOGS/log-files
    jetspark pause --status
    """,
)
async def pause(
    run: Run,
    *,
    shippers: Annotated[
        bool, typer.Option("--shippers", help="Pause every `jetspark ship`; the default without --consumers.")
    ] = False,
    consumers: Annotated[
        list[str] | None,
        option(
            "--consumers",
            metavar="STREAM/NAME",
            help="Pause this consumer; * for all of a stream; repeatable.",
        ),
    ] = None,
    for_: Annotated[
        float | None, duration_option("--for", help="Resume automatically after this long.")
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Only show what is paused, the agents and the jobs.")
    ] = False,
    wait: AgentWait = None,
) -> None:
    """Pause shippers and consumers. No data is lost.

    The switch is stored in the stream JETSPARK_CONTROL, so agents that start later obey it, too. Consumers
    are paused by the server.
    """
    if status and (shippers or consumers or for_):
        raise Failure("--status excludes the other options", "Remove them", Exit.USAGE)
    if for_ is not None and for_ <= 0:
        raise Failure("--for must be more than 0", code=Exit.USAGE)
    until = None if for_ is None else datetime.now(UTC) + timedelta(seconds=for_)
    async with run.jetstream() as js:
        if not status:
            for stream, name in await named_consumers(js, consumers):
                await control.pause_consumer(js, stream, name, until or datetime.now(UTC) + control.UNLIMITED)
            if shippers or not consumers:
                switch = await control.set_switch(js, paused=True, until=until)
                await wait_for_agents(js, switch, 3.0 if wait is None else wait)
        state = await control.read_state(js)
    show_state(run, state)


async def named_consumers(js: JetStream, given: list[str] | None) -> list[tuple[str, str]]:
    """The streams and consumers in `STREAM/NAME` options; the name `*` is every consumer of the stream."""
    found: list[tuple[str, str]] = []
    for each in comma_separated(given):
        stream, slash, name = each.partition("/")
        if not (stream and slash and name):
            raise Failure(f"{each!r} is not STREAM/NAME", code=Exit.USAGE)
        names = [name] if name != "*" else [one async for one in js.consumer_names(stream)]
        found += [(stream, one) for one in names]
    return found


async def wait_for_agents(js: JetStream, switch: control.Switch, seconds: float) -> None:
    """Wait until every live agent has reacted to the switch, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        state = await control.read_state(js)
        waiting = [agent for agent in state.agents if _is_alive(agent) and not control.obeys(agent, switch)]
        if not waiting or time.monotonic() >= deadline:
            return
        await asyncio.sleep(_INTERVAL)


def show_state(run: Run, state: control.ControlState) -> None:
    """Print what is paused, and whether the agents obey."""
    switch, agents, consumers, jobs = state
    paused = switch.holds(datetime.now(UTC))
    if run.out.json:
        run.out.value(
            {
                "shippers": {**to_json(switch), "paused": paused},
                "agents": [
                    {**to_json(agent), "alive": _is_alive(agent), "obeys": control.obeys(agent, switch)}
                    for agent in agents
                ],
                "consumers": to_json(consumers),
                "jobs": [{**to_json(job), "alive": _is_alive(job)} for job in jobs],
            }
        )
        return
    run.out.text(_switch_line(switch, paused=paused))
    if agents:
        run.out.table(
            ("Agent", "Host", "State", "Obeys", "Lines", "Last report"),
            [
                (
                    agent.name,
                    agent.host,
                    _state(agent),
                    control.obeys(agent, switch),
                    show_count(agent.lines),
                    _ago(agent),
                )
                for agent in agents
            ],
            empty="",
        )
    else:
        run.out.text("No agent reported in the last hour")
    if consumers:
        run.out.table(("Consumer", "State"), map(_consumer_cells, consumers), empty="")
    if jobs:
        run.out.table(
            ("Job", "Host", "State", "Rows", "Lag", "Last report"),
            [
                (job.name, job.host, _state(job), show_count(job.rows), show_count(job.lag), _ago(job))
                for job in jobs
            ],
            empty="",
        )


def _switch_line(switch: control.Switch, *, paused: bool) -> str:
    if not paused:
        return "Shippers are not paused"
    until = f"until {show_time(switch.until)}" if switch.until else "until `jetspark resume`"
    return f"Shippers are paused {until}, by {switch.by} at {show_time(switch.at)}"


def _consumer_cells(consumer: control.PausedConsumer) -> tuple[Any, ...]:
    state = "running"
    if consumer.missing:
        state = "deleted"
    elif consumer.paused:
        unlimited = consumer.remaining > control.UNLIMITED.total_seconds() / 2
        state = "paused until resumed" if unlimited else f"paused for {show_duration(consumer.remaining)}"
    return f"{consumer.stream}/{consumer.consumer}", state


def _ago(report: control.AgentReport | JobReport) -> str:
    if report.heard is None:
        return "never"
    return f"{show_duration(max((datetime.now(UTC) - report.heard).total_seconds(), 0.001))} ago"


def _state(report: control.AgentReport | JobReport) -> str:
    return job_state(report) if isinstance(report, JobReport) else control.agent_state(report)


def _is_alive(report: control.AgentReport | JobReport) -> bool:
    return _state(report) not in ("stopped", "failed", "silent")
