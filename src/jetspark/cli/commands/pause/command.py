"""`jetspark pause`: pause shippers and consumers, or show what is paused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jetspark.cli.args.parameters import AgentWait, duration_option, option
from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.pause.report import UNLIMITED, named_consumers, show_state, wait_for_agents
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.logs.control.switch import pause_consumer, read_state, set_switch

app = single()


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
        bool, typer.Option("--status", help="Only show what is paused, and the agents.")
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
                await pause_consumer(js, stream, name, until or datetime.now(UTC) + UNLIMITED)
            if shippers or not consumers:
                switch = await set_switch(js, paused=True, until=until)
                await wait_for_agents(js, switch, 3.0 if wait is None else wait)
        state = await read_state(js)
    show_state(run, state)
