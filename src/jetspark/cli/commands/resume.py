"""`jetspark resume`: resume what `jetspark pause` paused."""

from __future__ import annotations

from typing import Annotated

import typer

from jetspark.cli.args.parameters import AgentWait, option
from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.pause import named_consumers, show_state, wait_for_agents
from jetspark.logs.control.switch import read_state, resume_consumer, set_switch

app = single()


@command(
    app,
    "resume",
    examples="""
    jetspark resume
    jetspark resume --shippers
    jetspark resume --consumers LOGS/log-files
    """,
)
async def resume(
    run: Run,
    *,
    shippers: Annotated[bool, typer.Option("--shippers", help="Resume only the shippers.")] = False,
    consumers: Annotated[
        list[str] | None,
        option(
            "--consumers",
            metavar="STREAM/NAME",
            help="Resume only this consumer; * for all of a stream; repeatable.",
        ),
    ] = None,
    wait: AgentWait = None,
) -> None:
    """Resume the shippers, and the consumers that `jetspark pause` paused."""
    everything = not shippers and not consumers
    async with run.jetstream() as js:
        # The switch first: an error with a consumer must not keep the agents paused.
        switch = await set_switch(js, paused=False) if shippers or everything else None
        named = await named_consumers(js, consumers)
        if everything:
            named = [(each.stream, each.consumer) for each in (await read_state(js)).consumers]
        for stream, name in named:
            await resume_consumer(js, stream, name)
        if switch is not None:
            await wait_for_agents(js, switch, 3.0 if wait is None else wait)
        state = await read_state(js)
    show_state(run, state)
