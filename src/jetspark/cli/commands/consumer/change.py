"""`jetspark consumer edit`, `reset` and `report`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import Force
from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command
from jetspark.cli.commands.consumer.command import app, show_info
from jetspark.cli.commands.consumer.options import OPTIONS, fields
from jetspark.cli.complete import ConsumerName, StreamName
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json

#: Settings that the server does not let a consumer change.
_FIXED = ("deliver", "ack_policy", "replay_policy", "pull", "mem_storage", "flow_control", "idle_heartbeat")


@command(
    app,
    "edit",
    options={name: row for name, row in OPTIONS.items() if name not in _FIXED},
    examples="""
    jetspark consumer edit ORDERS billing --wait 1m --max-deliver 5
    jetspark consumer edit ORDERS billing --filter 'orders.eu.>' --force
    """,
)
async def edit(
    run: Run, stream: StreamName, consumer: ConsumerName, given: dict[str, Any], force: Force = False
) -> None:
    """Change the configuration of a consumer. Other settings stay the same."""
    changes = fields(given)
    if not changes:
        raise Failure("no setting given", "See `jetspark consumer edit --help`", Exit.USAGE)
    if "filter_subject" in changes:
        changes["filter_subjects"] = []
    elif "filter_subjects" in changes:
        changes["filter_subject"] = None
    async with run.jetstream() as js:
        before = (await js.consumer_info(stream, consumer)).config
        after = before.replace(**changes)
        different = [name for name in changes if getattr(before, name) != getattr(after, name)]
        if different and not force:
            for name in different:
                run.out.note(f"{name}: {to_json(getattr(before, name))} -> {to_json(getattr(after, name))}")
            run.out.confirm(f"Change consumer {stream} > {consumer}?", force=force)
        changed = (await js.update_consumer(stream, after)).cached_info
    state = "was changed" if different else "is unchanged"
    show_info(run.out, changed, f"Consumer {stream} > {consumer} {state}")


@command(
    app,
    "reset",
    examples="jetspark consumer reset ORDERS billing\njetspark consumer reset ORDERS billing 1234 --force",
)
async def reset(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    sequence: Annotated[
        int | None,
        typer.Argument(
            metavar="SEQUENCE",
            min=1,
            help="Deliver again from this sequence on; by default all unacknowledged messages.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Deliver messages again. Requires nats-server 2.14 or later."""
    async with run.jetstream() as js:
        await js.consumer_info(stream, consumer)
        where = f"from {show_count(sequence)} on" if sequence else "that are not acknowledged"
        run.out.confirm(f"Deliver messages {where} to {stream} > {consumer} again?", force=force)
        answer = await js.reset_consumer(stream, consumer, sequence)
    run.out.result(to_json(answer), f"Consumer {stream} > {consumer} delivers messages {where} again")


@command(app, "report", examples="jetspark consumer report ORDERS\njetspark consumer report ORDERS --json")
async def report(run: Run, stream: StreamName) -> None:
    """Compare the progress of the consumers of a stream, those with the most unprocessed messages first."""
    async with run.jetstream() as js:
        last = (await js.get_stream(stream)).cached_info.state.last_seq
        infos = [info async for info in js.consumers(stream)]
    infos.sort(key=lambda info: (-info.num_pending - info.num_ack_pending, info.name))
    if run.out.json:
        run.out.value(
            [
                {
                    "consumer": info.name,
                    "unprocessed": info.num_pending,
                    "ack_pending": info.num_ack_pending,
                    "redelivered": info.num_redelivered,
                    "waiting_pulls": info.num_waiting,
                    "ack_floor": info.ack_floor.stream_seq,
                    "paused": bool(info.paused),
                    "leader": info.cluster.leader if info.cluster else None,
                }
                for info in infos
            ]
        )
        return
    run.out.table(
        ("Name", "Unprocessed", "%", "Ack pending", "Redelivered", "Waiting", "Ack floor", "Leader"),
        (
            (
                info.name,
                show_count(info.num_pending),
                f"{100 * info.num_pending / last:.0f}" if last else "0",
                show_count(info.num_ack_pending),
                show_count(info.num_redelivered),
                show_count(info.num_waiting),
                show_count(info.ack_floor.stream_seq),
                "paused" if info.paused else (info.cluster.leader if info.cluster else ""),
            )
            for info in infos
        ),
        empty=f"No consumers. Create one with `jetspark consumer add {stream}`",
    )
