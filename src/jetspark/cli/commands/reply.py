"""`jetspark reply`: a service that answers requests, for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

import typer

from jetspark.cli.args.parameters import EndAfter, EndWhenIdle, name_values, option
from jetspark.cli.args.template import Template
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import received_json
from jetspark.cli.ui.messages import show_received
from jetspark.core.message import Msg
from jetspark.core.subscription import Subscription

app = single()


@command(
    app,
    "reply",
    examples="""
    jetspark reply service.time '{{Time}}'
    jetspark reply echo --echo --queue workers
    jetspark reply service.price '42' --count 1
    """,
)
async def reply(
    run: Run,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject to answer on.")],
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="BODY", help="The answer; can contain templates, as in `pub`.", show_default=False
        ),
    ] = None,
    *,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with the request.")] = False,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME:VALUE", help="Repeatable header.")
    ] = None,
    queue: Annotated[
        str, option("--queue", metavar="NAME", help="Queue group that shares the requests.")
    ] = "",
    number: EndAfter = None,
    wait: EndWhenIdle = None,
) -> None:
    """Answer requests, until Ctrl-C, --count or --wait."""
    if (body is None) != echo:
        raise Failure("give either an answer or --echo", code=Exit.USAGE)
    answer = Template(body or "")
    fields = name_values(headers, ":", "--header") or None
    async with run.jetstream() as js:
        nc = js.connection
        requests = await nc.subscribe(subject, queue=queue, max_msgs=number)
        await nc.flush()
        run.out.note(f"Answering on {subject}")
        index = 0
        async for request in _until_idle(requests, wait):
            index += 1
            run.out.record(received_json(request)) if run.out.json else show_received(run.out, request, index)
            if request.reply:
                data = request.data if echo else answer.render(index).encode()
                await request.respond(data, headers=fields)
        await nc.flush()


async def _until_idle(requests: Subscription, wait: float | None) -> AsyncGenerator[Msg, None]:
    arriving = aiter(requests)
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        while True:
            async with asyncio.timeout(wait):
                request = await anext(arriving)
            yield request
