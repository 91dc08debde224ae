"""`jetspark consumer`: manage consumers, and pull messages from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import Force, duration_option, one_of, parser
from jetspark.cli.args.start import parse_start
from jetspark.cli.args.units import count, duration, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.commands.consumer.options import OPTIONS, fields
from jetspark.cli.complete import ConsumerName, StreamName, stream_names
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import delivered_json, to_json
from jetspark.cli.ui.messages import show_delivered
from jetspark.cli.ui.output import Output
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo, SequenceInfo

app = group("Manage the consumers of a stream.")


@command(
    app,
    "add",
    options=OPTIONS,
    examples="""
    jetspark consumer add ORDERS billing --filter orders.new --ack explicit --wait 30s --max-deliver 10
    jetspark consumer add LOGS archive --deliver all --ack none --replay instant
    jetspark consumer add LOGS audit --deliver 1h --backoff 1s,10s,1m --max-deliver 5
    """,
)
async def add(
    run: Run,
    given: dict[str, Any],
    stream: Annotated[
        str | None, typer.Argument(metavar="STREAM", help="Name of the stream.", autocompletion=stream_names)
    ] = None,
    consumer: Annotated[str | None, typer.Argument(metavar="CONSUMER", help="Name of the consumer.")] = None,
    *,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Create an ephemeral consumer.")] = False,
    defaults: Annotated[bool, typer.Option("--defaults", help="Ask for the names only.")] = False,
) -> None:
    """Create a consumer.

    In a terminal it asks for missing settings; elsewhere it takes the defaults.
    """
    stream, consumer = _ask_for_missing(
        run.out, stream, consumer, given, ephemeral=ephemeral, defaults=defaults
    )
    config = fields(given)
    if consumer is not None:
        config["name" if ephemeral else "durable_name"] = consumer
    async with run.jetstream() as js:
        info = (await js.create_consumer(stream, ConsumerConfig(**config))).cached_info
    show_info(run.out, info, f"Consumer {stream} > {info.name} was created")


def _ask_for_missing(
    out: Output,
    stream: str | None,
    consumer: str | None,
    given: dict[str, Any],
    *,
    ephemeral: bool,
    defaults: bool,
) -> tuple[str, str | None]:
    if not out.interactive:
        if stream is None or (consumer is None and not ephemeral):
            raise Failure(
                "missing STREAM or CONSUMER", "Usage: `jetspark consumer add STREAM CONSUMER ...`", Exit.USAGE
            )
        return stream, consumer
    stream = stream or out.ask("Name of the stream")
    if consumer is None and not ephemeral:
        consumer = out.ask("Name of the consumer")
    if not defaults:
        if given["deliver"] is None:
            given["deliver"] = parse_start(
                out.ask("Start at (all, new, last, subject, a sequence, 1h)", default="all")
            )
        if given["ack_policy"] is None:
            given["ack_policy"] = one_of("explicit", "all", "none")(
                out.ask("Acknowledgements (explicit, all, none)", default="explicit")
            )
        if not given["filter"]:
            subject = out.ask("Subject filter (> is all)", default=">")
            given["filter"] = [subject] if subject != ">" else []
        if given["max_deliver"] is None and given["ack_policy"] != AckPolicy.NONE:
            given["max_deliver"] = parser(count)(
                out.ask("Maximum deliveries of a message (-1 for no limit)", default="-1")
            )
    return stream, consumer


@command(app, "ls", examples="jetspark consumer ls ORDERS\njetspark consumer ls ORDERS --names")
async def ls(
    run: Run,
    stream: StreamName,
    names: Annotated[bool, typer.Option("--names", "-n", help="Print only the names.")] = False,
) -> None:
    """List the consumers of a stream."""
    async with run.jetstream() as js:
        infos = sorted([info async for info in js.consumers(stream)], key=lambda info: info.name)
    if names:
        run.out.names(info.name for info in infos)
    elif run.out.json:
        run.out.value(to_json(infos))
    else:
        run.out.table(
            (
                "Name",
                "Kind",
                "Ack policy",
                "Ack wait",
                "Ack pending",
                "Redelivered",
                "Unprocessed",
                "Ack floor",
            ),
            (
                (
                    info.name,
                    "push" if info.config.is_push else "pull",
                    info.config.ack_policy,
                    show_duration(info.config.ack_wait or 0),
                    show_count(info.num_ack_pending),
                    show_count(info.num_redelivered),
                    show_count(info.num_pending),
                    show_count(info.ack_floor.stream_seq),
                )
                for info in infos
            ),
            empty=f"No consumers. Create one with `jetspark consumer add {stream}`",
        )


@command(
    app,
    "info",
    examples="jetspark consumer info ORDERS billing\njetspark consumer info ORDERS billing --json",
)
async def info(run: Run, stream: StreamName, consumer: ConsumerName) -> None:
    """Show the configuration and progress of a consumer."""
    async with run.jetstream() as js:
        found = await js.consumer_info(stream, consumer)
    show_info(run.out, found, f"Consumer {stream} > {consumer}")


@command(
    app,
    "next",
    examples="""
    jetspark consumer next ORDERS billing
    jetspark consumer next ORDERS billing --count 10 --wait 2s --no-ack
    jetspark consumer next ORDERS billing --term
    """,
)
async def next_(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    *,
    number: Annotated[int, typer.Option("--count", metavar="NUMBER", min=1, help="Number of messages.")] = 1,
    ack: Annotated[bool, typer.Option("--ack/--no-ack", help="Acknowledge the messages.")] = True,
    nak: Annotated[bool, typer.Option("--nak", help="Negatively acknowledge them: deliver again.")] = False,
    term: Annotated[bool, typer.Option("--term", help="Terminate them: never deliver again.")] = False,
    wait: Annotated[
        float | None, duration_option("--wait", help="How long to wait for them (--timeout).")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "-r", help="Print only the data; unchanged, except on a terminal.")
    ] = False,
) -> None:
    """Pull messages from a consumer."""
    if nak and term:
        raise Failure("--nak and --term exclude each other", code=Exit.USAGE)
    async with run.jetstream() as js:
        found = await js.get_consumer(stream, consumer)
        batch = await found.fetch(number, expires=wait or run.settings.seconds)
        for index, message in enumerate(batch, 1):
            if run.out.json:
                run.out.record(delivered_json(message))
            elif raw:
                run.out.raw(message.data)
            else:
                show_delivered(run.out, message, index)
        # Acknowledged last: a message that could not be printed is not handled.
        if nak or term:
            for message in batch:
                message.term() if term else message.nak()
        elif ack:
            batch.ack()
        await js.connection.flush()
        if not batch:
            run.out.note("No messages")
        if batch.error is not None:
            raise batch.error


@command(
    app,
    "pause",
    examples="""
    jetspark consumer pause ORDERS billing 10m
    jetspark consumer pause ORDERS billing 2026-12-24T18:00:00Z
    """,
)
async def pause(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    until: Annotated[str, typer.Argument(metavar="DURATION|TIME", help="How long, or until when.")],
) -> None:
    """Pause the delivery of a consumer."""
    deadline = _until(until)
    async with run.jetstream() as js:
        answer = await js.pause_consumer(stream, consumer, deadline)
    run.out.result(
        {"stream": stream, "consumer": consumer, **to_json(answer)},
        f"Consumer {stream} > {consumer} is paused until {show_time(answer.pause_until)}",
    )


@command(app, "resume", examples="jetspark consumer resume ORDERS billing")
async def resume(run: Run, stream: StreamName, consumer: ConsumerName) -> None:
    """Resume a paused consumer."""
    async with run.jetstream() as js:
        answer = await js.resume_consumer(stream, consumer)
    run.out.result(
        {"stream": stream, "consumer": consumer, **to_json(answer)},
        f"Consumer {stream} > {consumer} is resumed",
    )


@command(app, "rm", examples="jetspark consumer rm ORDERS billing --force")
async def rm(run: Run, stream: StreamName, consumer: ConsumerName, force: Force = False) -> None:
    """Delete a consumer and its state."""
    async with run.jetstream() as js:
        found = await js.consumer_info(stream, consumer)
        pending = (
            f"{show_count(found.num_ack_pending)} unacknowledged and {show_count(found.num_pending)} pending"
        )
        run.out.confirm(f"Delete consumer {stream} > {consumer} with {pending} messages?", force=force)
        await js.delete_consumer(stream, consumer)
    run.out.result(
        {"stream": stream, "consumer": consumer, "deleted": True}, f"Deleted consumer {stream} > {consumer}"
    )


def _until(text: str) -> datetime:
    try:
        return datetime.now(UTC) + timedelta(seconds=duration(text))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Failure(f"{text!r} is neither a duration, like 10m, nor a time", code=Exit.USAGE) from None


def show_info(out: Output, info: ConsumerInfo, heading: str) -> None:
    config = info.config
    start: object = config.deliver_policy
    if config.opt_start_seq or config.opt_start_time:
        start = f"{start} {config.opt_start_seq or show_time(config.opt_start_time)}"
    out.describe(
        to_json(info),
        heading,
        (
            ("Description", config.description),
            ("Created", show_time(info.created)),
            ("Durable", bool(config.durable_name)),
            ("Pushes to", config.deliver_subject),
            ("Deliver", start),
            ("Filters", ", ".join(config.filter_subjects) or config.filter_subject),
            ("Acknowledgements", config.ack_policy),
            (
                "Ack wait",
                show_duration(config.ack_wait or 0) if config.ack_policy != AckPolicy.NONE else None,
            ),
            ("Backoff", ", ".join(map(show_duration, config.backoff)) or None),
            ("Maximum deliveries", config.max_deliver if (config.max_deliver or 0) > 0 else "unlimited"),
            ("Maximum ack pending", config.max_ack_pending),
            ("Replay", config.replay_policy),
            (
                "Inactive threshold",
                show_duration(config.inactive_threshold) if config.inactive_threshold else None,
            ),
            ("Paused", f"for {show_duration(info.pause_remaining or 0)}" if info.paused else None),
            ("Leader", info.cluster and info.cluster.leader),
            ("Last delivered", _place(info.delivered)),
            ("Ack floor", _place(info.ack_floor)),
            ("Ack pending", show_count(info.num_ack_pending)),
            ("Redelivered", show_count(info.num_redelivered)),
            ("Waiting pulls", show_count(info.num_waiting)),
            ("Unprocessed", show_count(info.num_pending)),
        ),
    )


def _place(place: SequenceInfo) -> str:
    return (
        f"consumer sequence {show_count(place.consumer_seq)}, stream sequence {show_count(place.stream_seq)}"
    )
