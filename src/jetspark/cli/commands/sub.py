"""`jetspark sub`: read messages as they come, from a subject or from a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final, NamedTuple

import typer

from jetspark.cli.args.complete import consumer_names, stream_names
from jetspark.cli.args.parameters import option, period
from jetspark.cli.args.position import Deliver, Position, position
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import delivered, received
from jetspark.cli.ui.messages import show_delivered, show_received
from jetspark.core.connection import Connection
from jetspark.core.message import Msg
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig

app = single()


class _Limits(NamedTuple):
    """When it ends by itself: after so many messages, or when none comes for so many seconds."""

    number: int | None
    wait: float | None

    @property
    def batch(self) -> int:
        return _BATCH if self.number is None else min(self.number, _BATCH)


_BATCH: Final = 500
#: Seconds of one pull of many; it is only a pull, the next one follows.
_PULL: Final = 30.0
#: Seconds without use after which the server deletes a consumer that was made for one `sub`.
_EPHEMERAL: Final = 60.0


@command(
    app,
    "sub",
    examples="""
    jetspark sub 'orders.>'
    jetspark sub --stream ORDERS --deliver 1h
    jetspark sub 'orders.eu.>' --stream ORDERS --deliver all --count 100 --json
    jetspark sub --stream ORDERS --consumer billing --ack --wait 10s
    """,
)
async def sub(
    run: Run,
    subject: Annotated[
        str | None,
        typer.Argument(metavar="SUBJECT", help="What to read; of a stream, a filter.", show_default=False),
    ] = None,
    *,
    queue: Annotated[
        str | None, option("--queue", metavar="NAME", help="Share the messages of a subject.")
    ] = None,
    stream: Annotated[
        str | None, option("--stream", metavar="STREAM", autocompletion=stream_names, help="Read a stream.")
    ] = None,
    consumer: Annotated[
        str | None,
        option("--consumer", metavar="NAME", autocompletion=consumer_names, help="Through this consumer."),
    ] = None,
    deliver: Deliver = None,
    since: Annotated[
        str | None, option("--since", metavar="TIME", help="The same as --deliver, for a time.")
    ] = None,
    start_sequence: Annotated[
        int | None, option("--start-sequence", metavar="SEQUENCE", min=1, help="The same, for a sequence.")
    ] = None,
    ack: Annotated[
        bool | None,
        option("--ack/--no-ack", help="Acknowledge what was printed; by default with --consumer alone."),
    ] = None,
    number: Annotated[
        int | None, option("--count", metavar="NUMBER", min=1, help="End after so many.")
    ] = None,
    wait: Annotated[
        float | None,
        period("--wait", help="End when none comes for so long."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "-r", help="Print the data alone, as it is, a line each.")
    ] = False,
) -> None:
    """Read messages, until Ctrl-C or a limit.

    Without --stream it hears what is published while it listens. With it, it reads the stream in order from
    --deliver on (all), and goes on with what comes. With --ack on a work queue it takes messages out.
    """
    start = _start(deliver, since, start_sequence)
    _check(subject, queue=queue, stream=stream, consumer=consumer, start=start, ack=ack)
    limits = _Limits(number, wait)

    def show(message: Msg, index: int) -> None:
        if raw:
            run.out.raw(message.data + b"\n")
        elif isinstance(message, JetStreamMsg):
            run.out.record(delivered(message)) if run.out.json else show_delivered(run.out, message, index)
        else:
            run.out.record(received(message)) if run.out.json else show_received(run.out, message, index)

    async with run.connection() as nc:
        js = nc.jetstream(**run.settings.jetstream_options())
        acknowledge = ack if ack is not None else consumer is not None
        if stream is None:
            messages = _heard(nc, str(subject), queue or "", limits)
            run.out.note(f"Listening on {subject}")
        elif consumer is not None:
            messages = _pulled(await js.get_consumer(stream, consumer), limits)
        elif acknowledge:
            messages = _taken(js, stream, subject, start or Position(), limits)
        else:
            messages = _read(js, stream, subject, start or Position(), limits)
        index = 0
        async with aclosing(messages):
            async for message in messages:
                index += 1
                show(message, index)
                if acknowledge and isinstance(message, JetStreamMsg):
                    await message.ack()
        if acknowledge:
            await nc.flush()


def _start(deliver: Any, since: str | None, sequence: int | None) -> Position | None:
    given = [
        each for each in (deliver, since and position(since), sequence and position(str(sequence))) if each
    ]
    if len(given) > 1:
        raise Failure("--deliver, --since and --start-sequence exclude each other", code=Exit.USAGE)
    return given[0] if given else None


def _check(
    subject: str | None,
    *,
    queue: str | None,
    stream: str | None,
    consumer: str | None,
    start: Position | None,
    ack: bool | None,
) -> None:
    problem = None
    if stream is None:
        if subject is None:
            problem = "give a subject, or --stream"
        elif consumer is not None or start is not None or ack:
            problem = "--consumer, --ack and where to start need --stream"
    elif queue is not None:
        problem = "--queue is for subjects; those who share a --consumer share its messages"
    elif consumer is not None and (subject is not None or start is not None):
        problem = "--consumer has its own filter and start"
    if problem:
        raise Failure(problem, "`jetspark sub --help` shows how", Exit.USAGE)


async def _heard(nc: Connection, subject: str, queue: str, limits: _Limits) -> AsyncGenerator[Msg, None]:
    """What is published while we listen."""
    async with await nc.subscribe(subject, queue=queue, max_msgs=limits.number) as subscription:
        await nc.flush()
        while frames := await subscription.take(_BATCH, limits.wait):
            for frame in frames:
                yield Msg(frame, nc)


async def _read(
    js: JetStream, stream: str, subject: str | None, start: Position, limits: _Limits
) -> AsyncGenerator[Msg, None]:
    """A stream in order, without a trace."""
    reader = await js.ordered_consumer(stream, filter_subjects=_filters(subject, start), **start._asdict())
    async with reader.messages(max_messages=limits.batch) as messages:
        seen = 0
        while (message := await messages.next(limits.wait)) is not None:
            yield message
            seen += 1
            if seen == limits.number:
                return


async def _taken(
    js: JetStream, stream: str, subject: str | None, start: Position, limits: _Limits
) -> AsyncGenerator[Msg, None]:
    """A stream through a consumer of our own that acknowledges."""
    config = ConsumerConfig(
        ack_policy=AckPolicy.EXPLICIT,
        filter_subjects=_filters(subject, start),
        inactive_threshold=_EPHEMERAL,
        **start._asdict(),
    )
    consumer = await js.create_consumer(stream, config)
    try:
        async with aclosing(_pulled(consumer, limits)) as messages:
            async for message in messages:
                yield message
    finally:
        await js.connection.flush()  # the acknowledgements first
        await consumer.delete()


async def _pulled(consumer: Consumer, limits: _Limits) -> AsyncGenerator[Msg, None]:
    """From a consumer, and never more than wanted: what is fetched counts as delivered."""
    seen = 0
    number, wait = limits
    while number is None or seen < number:
        wanted = _BATCH if number is None else min(number - seen, _BATCH)
        batch = await consumer.fetch_no_wait(wanted)
        if not batch:
            message = await consumer.next(expires=wait or _PULL)
            if message is None and wait is not None:
                return
            batch.extend([message] if message is not None else [])
        for message in batch:
            yield message
        seen += len(batch)


def _filters(subject: str | None, start: Position) -> list[str]:
    if subject is not None:
        return [subject]
    return [">"] if start.deliver_policy == "last_per_subject" else []
