"""`jetspark events`: the advisories of JetStream as they arrive."""

from __future__ import annotations

from typing import Annotated, Any, Final

from jetspark.cli.args.parameters import EndAfter, EndWhenIdle, comma_separated, option
from jetspark.cli.args.units import show_duration
from jetspark.cli.command import Run, command, single
from jetspark.cli.complete import consumer_option, stream_option
from jetspark.cli.long_running import arrivals
from jetspark.cli.ui.escape import escape_line
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.output import Output
from jetspark.jetstream.model.advisories import ADVISORIES, Advisory, MessageAcked

app = single()

_TITLES: Final = {
    "max_deliver": "Delivery Attempts Exceeded",
    "nak": "Message Sent Back",
    "terminated": "Message Terminated",
    "consumer_ack": "Message Acknowledged",
    "consumer_action": "Consumer {action}",
    "consumer_pause": "Consumer Paused",
    "stream_action": "Stream {action}",
    "api_audit": "JetStream API Used",
}
_ACTIONS: Final = {"create": "Created", "delete": "Deleted", "modify": "Updated"}
# Fields that are in the heading, on a line of their own, or too long.
_NOT_LISTED: Final = (
    *("type", "id", "timestamp", "domain", "account", "stream", "consumer", "action"),
    *("request", "response", "state", "client", "replicas"),
)
_LABELS: Final = {"stream_seq": "Stream Sequence", "consumer_seq": "Consumer Sequence"}


@command(
    app,
    "events",
    examples="""
    jetspark events
    jetspark events --kind max_deliver,terminated --stream WQ
    jetspark events --stream WQ --consumer WORK --json | jq .stream_seq
    """,
)
async def events(
    run: Run,
    *,
    kind: Annotated[
        list[str] | None,
        option(
            "--kind",
            metavar="KIND",
            autocompletion=lambda incomplete: [each for each in ADVISORIES if each.startswith(incomplete)],
            help="Only these kinds, like max_deliver or terminated; repeatable, or with commas.",
        ),
    ] = None,
    stream: Annotated[str | None, stream_option("Only events of this stream.")] = None,
    consumer: Annotated[str | None, consumer_option("Only events of this consumer.")] = None,
    number: EndAfter = None,
    wait: EndWhenIdle = None,
) -> None:
    """Watch the advisories and metrics of JetStream, until Ctrl-C, --count or --wait."""
    async with (
        run.jetstream() as js,
        js.advisories(comma_separated(kind) or None, stream=stream, consumer=consumer) as advisories,
    ):
        run.out.note(f"Listening for advisories on {', '.join(advisories.subjects)}")
        async for event in arrivals(advisories, number, wait):
            if run.out.json:
                run.out.record({"kind": event.kind, **to_json(event)})
            else:
                _show(run.out, event)


def _show(out: Output, event: Advisory) -> None:
    when = event.timestamp.astimezone().strftime("%H:%M:%S") if event.timestamp else "?"
    out.text(f"[{when}] [{event.id}] {_title(event)}")
    pairs = _pairs(event)
    width = max((len(name) for name, _ in pairs), default=0) + 2
    for name, value in pairs:
        out.text(f"{name:>{width}}: {escape_line(value)}", safe=True)
    out.text()


def _title(event: Advisory) -> str:
    title = _TITLES.get(event.kind) or event.kind.replace("_", " ").title()
    action = getattr(event, "action", "")
    return title.replace("{action}", _ACTIONS.get(action, action))


def _pairs(event: Advisory) -> list[tuple[str, object]]:
    stream, consumer = getattr(event, "stream", None), getattr(event, "consumer", None)
    pairs: list[tuple[str, object]] = []
    if consumer:
        pairs.append(("Consumer", f"{stream} > {consumer}"))
    elif stream:
        pairs.append(("Stream", stream))
    timed = isinstance(event, MessageAcked)  # In unknown events a field may be anything.
    fields: dict[str, Any] = to_json(event)
    for name, value in fields.items():
        if name in _NOT_LISTED or value in (None, "", [], {}):
            continue
        shown = show_duration(value) if timed and name == "ack_time" else value
        pairs.append((_LABELS.get(name, name.replace("_", " ").title()), shown))
    client = fields.get("client")
    if isinstance(client, dict):
        pairs.append(
            ("Client", " ".join(str(client[key]) for key in ("user", "name", "host") if client.get(key)))
        )
    if replicas := getattr(event, "replicas", None):
        pairs.append(("Replicas", ", ".join(replica.name for replica in replicas)))
    return pairs
