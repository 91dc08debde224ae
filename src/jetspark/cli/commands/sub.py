"""`jetspark sub`: read messages from a subject, a stream or a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, NamedTuple

import typer

from jetspark.cli.args.parameters import EndAfter, EndWhenIdle, option
from jetspark.cli.args.start import Deliver, Start, parse_start
from jetspark.cli.command import Run, command, single
from jetspark.cli.complete import consumer_option, stream_option
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import delivered_json, received_json
from jetspark.cli.ui.messages import show_delivered, show_received
from jetspark.core.connection import Connection
from jetspark.core.message import Msg
from jetspark.errors import ConsumerNotFound
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig

app = single()


class _Limits(NamedTuple):
    """When to stop: after `number` messages, or after `wait` seconds without one."""

    number: int | None
    wait: float | None

    @property
    def batch(self) -> int:
        return _BATCH if self.number is None else min(self.number, _BATCH)


_BATCH: Final = 500
#: Seconds until a pull expires; the next one follows.
_EXPIRES: Final = 30.0
#: Seconds to wait for the server to process acknowledgements, and between two looks at the consumer.
_ACKNOWLEDGE: Final = 10.0
_LOOK: Final = 0.01
#: Seconds without use after which the server deletes the consumer of one `sub`.
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
        typer.Argument(
            metavar="SUBJECT", help="Subject to read; with --stream, a filter.", show_default=False
        ),
    ] = None,
    *,
    queue: Annotated[
        str | None,
        option("--queue", metavar="NAME", help="Queue group that shares the messages of a subject."),
    ] = None,
    stream: Annotated[str | None, stream_option("Read this stream.")] = None,
    consumer: Annotated[str | None, consumer_option("Read through this consumer of the stream.")] = None,
    deliver: Deliver = None,
    since: Annotated[
        str | None, option("--since", metavar="TIME", help="Start at this time; the same as --deliver.")
    ] = None,
    start_sequence: Annotated[
        int | None,
        option(
            "--start-sequence",
            metavar="SEQUENCE",
            min=1,
            help="Start at this sequence; the same as --deliver.",
        ),
    ] = None,
    ack: Annotated[
        bool | None,
        option("--ack/--no-ack", help="Acknowledge printed messages; the default with --consumer."),
    ] = None,
    number: EndAfter = None,
    wait: EndWhenIdle = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", "-r", help="Print only the data, with a line break; unchanged, except on a terminal."
        ),
    ] = False,
) -> None:
    """Read messages, until Ctrl-C, --count or --wait.

    Without --stream it receives messages published while it runs. With --stream it reads the stored
    messages in order, starting at --deliver (all), and then new ones. --ack on a work queue removes the
    messages.
    """
    start = _start(deliver, since, start_sequence)
    _check(subject, queue=queue, stream=stream, consumer=consumer, start=start, ack=ack)
    limits = _Limits(number, wait)

    def show(message: Msg, index: int) -> None:
        if raw:
            run.out.raw(message.data + b"\n")
        elif isinstance(message, JetStreamMsg):
            run.out.record(delivered_json(message)) if run.out.json else show_delivered(
                run.out, message, index
            )
        else:
            run.out.record(received_json(message)) if run.out.json else show_received(run.out, message, index)

    async with run.jetstream() as js:
        nc = js.connection
        acknowledge = ack if ack is not None else consumer is not None
        if stream is None:
            messages = _subscribed(nc, str(subject), queue or "", limits)
            run.out.note(f"Listening on {subject}")
        elif consumer is not None:
            messages = _pulled(await js.get_consumer(stream, consumer), limits)
        elif acknowledge:
            messages = _acknowledged(js, stream, subject, start or Start(), limits)
        else:
            messages = _ordered(js, stream, subject, start or Start(), limits)
        index = 0
        async with aclosing(messages):
            async for message in messages:
                index += 1
                show(message, index)
                if acknowledge and isinstance(message, JetStreamMsg):
                    await message.ack()
        if acknowledge:
            await nc.flush()


def _start(deliver: Any, since: str | None, sequence: int | None) -> Start | None:
    given = [
        each
        for each in (deliver, since and parse_start(since), sequence and parse_start(str(sequence)))
        if each
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
    start: Start | None,
    ack: bool | None,
) -> None:
    problem = None
    if stream is None:
        if subject is None:
            problem = "give a subject, or --stream"
        elif consumer is not None or start is not None or ack:
            problem = "--consumer, --ack, --deliver, --since and --start-sequence need --stream"
    elif queue is not None:
        problem = "--queue excludes --stream; readers of one --consumer share its messages"
    elif consumer is not None and (subject is not None or start is not None):
        problem = "--consumer excludes SUBJECT, --deliver, --since and --start-sequence"
    if problem:
        raise Failure(problem, "See `jetspark sub --help`", Exit.USAGE)


async def _subscribed(nc: Connection, subject: str, queue: str, limits: _Limits) -> AsyncGenerator[Msg, None]:
    """Messages published from now on."""
    async with await nc.subscribe(subject, queue=queue, max_msgs=limits.number) as subscription:
        await nc.flush()
        while frames := await subscription.take(_BATCH, limits.wait):
            for frame in frames:
                yield Msg(frame, nc)


async def _ordered(
    js: JetStream, stream: str, subject: str | None, start: Start, limits: _Limits
) -> AsyncGenerator[Msg, None]:
    """A stream in order, by an ordered consumer."""
    reader = await js.ordered_consumer(stream, filter_subjects=_filters(subject, start), **start._asdict())
    async with reader.messages(max_messages=limits.batch) as messages:
        seen = 0
        while (message := await messages.next(limits.wait)) is not None:
            yield message
            seen += 1
            if seen == limits.number:
                return


async def _acknowledged(
    js: JetStream, stream: str, subject: str | None, start: Start, limits: _Limits
) -> AsyncGenerator[Msg, None]:
    """A stream, by a temporary consumer with acknowledgements."""
    config = ConsumerConfig(
        ack_policy=AckPolicy.EXPLICIT,
        filter_subjects=_filters(subject, start),
        inactive_threshold=_EPHEMERAL,
        **start._asdict(),
    )
    consumer = await js.create_consumer(stream, config)
    last: Msg | None = None
    try:
        async with aclosing(_pulled(consumer, limits)) as messages:
            async for message in messages:
                yield message
                last = message
    finally:
        await js.connection.flush()
        if isinstance(last, JetStreamMsg):
            await _until_acknowledged(consumer, last.metadata.sequence.consumer)
        await consumer.delete()


async def _until_acknowledged(consumer: Consumer, sequence: int) -> None:
    """Wait until the server has processed the acknowledgements up to this delivery.

    It queues them: a consumer that is deleted at once takes those in its queue with it.
    """
    with suppress(TimeoutError, ConsumerNotFound):
        async with asyncio.timeout(_ACKNOWLEDGE):
            while (await consumer.info()).ack_floor.consumer_seq < sequence:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(_LOOK)


async def _pulled(consumer: Consumer, limits: _Limits) -> AsyncGenerator[Msg, None]:
    """Messages of a consumer, never more than wanted: a fetched message counts as delivered."""
    seen = 0
    number, wait = limits
    while number is None or seen < number:
        wanted = _BATCH if number is None else min(number - seen, _BATCH)
        batch = await consumer.fetch_no_wait(wanted)
        if not batch:
            message = await consumer.next(expires=wait or _EXPIRES)
            if message is None and wait is not None:
                return
            batch.extend([message] if message is not None else [])
        for message in batch:
            yield message
        seen += len(batch)


def _filters(subject: str | None, start: Start) -> list[str]:
    if subject is not None:
        return [subject]
    return [">"] if start.deliver_policy == "last_per_subject" else []
