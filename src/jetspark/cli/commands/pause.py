"""`jetspark pause`: the stop button, and who obeys it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from jetspark.cli.args.parameters import option, period, words
from jetspark.cli.args.units import show_count, show_duration, show_time
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import plain
from jetspark.jetstream.context import JetStream
from jetspark.logs.control.switch import (
    SILENT_AFTER,
    AgentReport,
    ControlState,
    PausedConsumer,
    Switch,
    pause_consumer,
    read_state,
    set_switch,
)

__all__ = ["app", "named_consumers", "show_state", "wait_for_agents"]

app = single()

#: What "until resumed" is for the server, which wants a time.
_LONG: Final = timedelta(days=3650)
_LOOK: Final = 0.1


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
        bool, typer.Option("--shippers", help="Let every `jetspark ship` pause; so without --consumers.")
    ] = False,
    consumers: Annotated[
        list[str] | None,
        option("--consumers", metavar="STREAM/NAME", help="Pause consumers; * for all of a stream."),
    ] = None,
    for_: Annotated[
        float | None,
        period("--for", help="Go on by itself after so long."),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show what is paused and who obeys.")] = False,
    wait: Annotated[
        float | None,
        period("--wait", help="Wait for agents to obey (3s)."),
    ] = None,
) -> None:
    """Stop shippers and consumers, without losing anything.

    The switch is kept in the stream JETSPARK_CONTROL, so that agents which come later obey, too.
    Consumers are paused on the server.
    """
    if status and (shippers or consumers or for_):
        raise Failure("--status only looks", "Leave the others out", Exit.USAGE)
    if for_ is not None and for_ <= 0:
        raise Failure("--for must be more than 0", code=Exit.USAGE)
    until = None if for_ is None else datetime.now(UTC) + timedelta(seconds=for_)
    async with run.jetstream() as js:
        if not status:
            for stream, name in await named_consumers(js, consumers):
                await pause_consumer(js, stream, name, until or datetime.now(UTC) + _LONG)
            if shippers or not consumers:
                switch = await set_switch(js, paused=True, until=until)
                await wait_for_agents(js, switch, 3.0 if wait is None else wait)
        state = await read_state(js)
    show_state(run, state)


async def named_consumers(js: JetStream, given: list[str] | None) -> list[tuple[str, str]]:
    """Streams and consumers that `STREAM/NAME` stands for; `*` is every one of the stream."""
    found: list[tuple[str, str]] = []
    for each in words(given):
        stream, slash, name = each.partition("/")
        if not (stream and slash and name):
            raise Failure(f"{each!r} is not STREAM/NAME", code=Exit.USAGE)
        names = [name] if name != "*" else [one async for one in js.consumer_names(stream)]
        found += [(stream, one) for one in names]
    return found


async def wait_for_agents(js: JetStream, switch: Switch, seconds: float) -> None:
    """Wait until every agent that lives has heard the word, at most so long."""
    deadline = time.monotonic() + seconds
    while True:
        state = await read_state(js)
        waiting = [agent for agent in state.agents if _is_alive(agent) and not _obeys(agent, switch)]
        if not waiting or time.monotonic() >= deadline:
            return
        await asyncio.sleep(_LOOK)


def show_state(run: Run, state: ControlState) -> None:
    """What is paused, and who obeys."""
    switch, agents, consumers = state
    paused = switch.holds(datetime.now(UTC))
    if run.out.json:
        run.out.value(
            {
                "shippers": {**plain(switch), "paused": paused},
                "agents": [
                    {**plain(agent), "alive": _is_alive(agent), "obeys": _obeys(agent, switch)}
                    for agent in agents
                ],
                "consumers": plain(consumers),
            }
        )
        return
    run.out.text(_switch_line(switch, paused=paused))
    if agents:
        run.out.table(
            ("Agent", "Host", "State", "Obeys", "Lines", "Last heard"),
            [
                (
                    agent.name,
                    agent.host,
                    agent.state if _is_alive(agent) or agent.state == "stopped" else "silent",
                    _obeys(agent, switch),
                    show_count(agent.lines),
                    f"{show_duration(max(_age(agent), 0.001))} ago",
                )
                for agent in agents
            ],
            empty="",
        )
    else:
        run.out.text("No agents were heard in the last hour")
    if consumers:
        run.out.table(("Consumer", "State"), map(_consumer_row, consumers), empty="")


def _switch_line(switch: Switch, *, paused: bool) -> str:
    if not paused:
        return "Shippers may ship"
    until = f"until {show_time(switch.until)}" if switch.until else "until `jetspark resume`"
    return f"Shippers are paused {until}, by {switch.by} at {show_time(switch.at)}"


def _consumer_row(consumer: PausedConsumer) -> tuple[Any, ...]:
    state = "goes on"
    if consumer.missing:
        state = "is gone"
    elif consumer.paused:
        for_ever = consumer.remaining > _LONG.total_seconds() / 2
        state = "paused until resumed" if for_ever else f"paused for {show_duration(consumer.remaining)}"
    return f"{consumer.stream}/{consumer.consumer}", state


def _age(agent: AgentReport) -> float:
    return (datetime.now(UTC) - agent.heard).total_seconds() if agent.heard else SILENT_AFTER


def _is_alive(agent: AgentReport) -> bool:
    return agent.state != "stopped" and _age(agent) < SILENT_AFTER


def _obeys(agent: AgentReport, switch: Switch) -> bool:
    """Whether an agent has heard the last word, and does what it says."""
    wanted = "paused" if switch.holds(datetime.now(UTC)) else "shipping"
    return agent.state == "stopped" or (agent.obeys >= switch.sequence and agent.state == wanted)
