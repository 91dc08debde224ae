"""`jetspark req`: ask a service, or all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from jetspark.cli.args import stdin
from jetspark.cli.args.parameters import duration_option, name_values
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.json import received_json
from jetspark.cli.ui.messages import show_received
from jetspark.errors import Timeout

app = single()


@command(
    app,
    "req",
    examples="""
    jetspark req service.time
    echo '{"id": 1}' | jetspark req orders.price -
    jetspark req service.ping --replies 0 --wait 2s
    """,
)
async def req(
    run: Run,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject of the service.")],
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="Data; - reads stdin.", show_default=False)
    ] = None,
    *,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME:VALUE", help="Repeatable header.")
    ] = None,
    replies: Annotated[
        int, typer.Option("--replies", metavar="NUMBER", min=0, help="Number of answers; 0 is all of them.")
    ] = 1,
    wait: Annotated[
        float | None, duration_option("--wait", help="How long to wait for answers (--timeout).")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "-r", help="Print only the data; unchanged, except on a terminal.")
    ] = False,
) -> None:
    """Send a request and print the answers."""
    data = await stdin.whole() if body == "-" else (body or "").encode("utf-8", "surrogateescape")
    seconds = wait or run.settings.seconds
    fields = name_values(headers, ":", "--header") or None
    async with run.jetstream() as js:
        index = 0
        many = js.connection.request_many(
            subject, data, timeout=seconds, headers=fields, max_msgs=replies or None
        )
        async for answer in many:
            index += 1
            if run.out.json:
                run.out.record(received_json(answer))
            elif raw:
                run.out.raw(answer.data)
            else:
                show_received(run.out, answer, index)
    if not index:
        raise Timeout(f"no answer on {subject!r} within {seconds:g} s")
