"""`jetspark trace`: the way of a message through the servers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import duration_option
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.escape import escape_line
from jetspark.core.json import decode_json
from jetspark.errors import Error, Timeout

app = single()

_NAMES = {
    "in": "received",
    "sm": "mapped to another subject",
    "se": "exported to a service",
    "si": "imported",
    "js": "JetStream",
    "eg": "sent on",
}
_KINDS = ("client", "router", "gateway", "system", "leaf node", "JetStream", "account")


@command(
    app,
    "trace",
    examples="""
    jetspark trace orders.new
    jetspark trace orders.new '{"id": 1}' --deliver --json
    """,
)
async def trace(
    run: Run,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject of the message.")],
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="Data of the message.", show_default=False)
    ] = "",
    *,
    deliver: Annotated[bool, typer.Option("--deliver", help="Deliver and store the message, too.")] = False,
    wait: Annotated[
        float | None, duration_option("--wait", help="How long to wait for the servers (1s).")
    ] = None,
) -> None:
    """Show which servers a message passes, which clients would get it, and which stream would store it.

    Requires nats-server 2.11 or later. By default nothing is delivered.
    """
    async with run.jetstream() as js:
        nc = js.connection
        async with await nc.subscribe(nc.new_inbox()) as events:
            headers = {"Nats-Trace-Dest": events.subject}
            if not deliver:
                headers["Nats-Trace-Only"] = "true"
            await nc.publish(subject, body.encode("utf-8", "surrogateescape"), headers=headers)
            found: list[dict[str, Any]] = []
            while True:
                try:
                    message = await events.next(wait or 1.0)
                except Timeout:
                    break
                found.append(decode_json(message.data, dict[str, Any], "a trace event"))
    if not found:
        raise Error(
            "no server answered with a trace", hint="Traces require nats-server 2.11 or later, and permission"
        )
    if run.out.json:
        run.out.value(found)
        return
    for event in found:
        _show(run, event)


def _show(run: Run, event: dict[str, Any]) -> None:
    server = event.get("server") or {}
    run.out.heading(f"Server {escape_line(str(server.get('name', '?')))}")
    for step in event.get("events") or []:
        name = _NAMES.get(str(step.get("type")), str(step.get("type")))
        kind = step.get("kind")
        details = [_KINDS[kind] if isinstance(kind, int) and kind < len(_KINDS) else ""]
        details += [
            f"{key} {step[key]}" for key in ("name", "subj", "stream", "to", "queue") if step.get(key)
        ]
        if step.get("nointerest"):
            details.append("no interest")
        if step.get("error"):
            details.append(f"error: {step['error']}")
        run.out.text(f"  {name}: {', '.join(filter(None, details))}")
