"""`jetspark resume`: let what `jetspark pause` stopped go on."""

from __future__ import annotations

from typing import Annotated

import typer

from jetspark.cli.args.parameters import option, period
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
    shippers: Annotated[bool, typer.Option("--shippers", help="Only the shippers.")] = False,
    consumers: Annotated[
        list[str] | None,
        option("--consumers", metavar="STREAM/NAME", help="Only these; * for all of a stream."),
    ] = None,
    wait: Annotated[
        float | None,
        period("--wait", help="Wait for agents to obey (3s)."),
    ] = None,
) -> None:
    """Let shippers go on, and the consumers that `jetspark pause` paused."""
    everything = not shippers and not consumers
    async with run.jetstream() as js:
        # The switch first: whatever goes wrong with a consumer, agents must not wait for it.
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
