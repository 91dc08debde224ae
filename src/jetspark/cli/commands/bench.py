"""`jetspark bench`: the speed of a server, measured on a temporary stream.

The results include the network, the server and this client. `make bench` compares clients.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Final

import typer

from jetspark.cli.args.parameters import choice_option, option, parser, size_option
from jetspark.cli.args.units import at_least_1, show_bytes, show_count, show_duration, show_rate
from jetspark.cli.command import Run, command, group
from jetspark.errors import Error
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.model.stream import StreamConfig

app = group("Benchmark a server on a temporary stream.")

_PERCENTILES: Final = (50, 90, 99)

Messages = Annotated[
    int | None,
    option("--msgs", metavar="NUMBER", parser=parser(at_least_1), help="Number of messages (100,000)."),
]
Probes = Annotated[
    int | None,
    option("--msgs", metavar="NUMBER", parser=parser(at_least_1), help="Number of messages (1,000)."),
]
Size = Annotated[int | None, size_option("--size", help="Size of a message (128).")]
Storage = Annotated[
    str | None, choice_option("--storage", choices=("file", "memory"), help="Storage of the stream (file).")
]
Replicas = Annotated[int, typer.Option("--replicas", min=1, max=5, help="Replicas of the stream.")]


@command(app, "pub", examples="jetspark bench pub --msgs 1_000_000 --size 1KB --window 10000")
async def pub(
    run: Run,
    *,
    messages: Messages = None,
    body_size: Size = None,
    window: Annotated[int, typer.Option("--window", min=1, help="Maximum messages in flight.")] = 4096,
    storage: Storage = None,
    replicas: Replicas = 1,
) -> None:
    """Publish with acknowledgements, many at a time."""
    number, bytes_ = messages or 100_000, 128 if body_size is None else body_size
    async with run.jetstream() as js, _stream(js, storage, replicas) as name:
        seconds = await _fill(run, js, name, number, bytes_, window)
    _show(run, "pub", number, bytes_, seconds, window=window)


@command(
    app,
    "fetch",
    examples="jetspark bench fetch --msgs 500_000 --batch 5000\njetspark bench fetch --ack explicit",
)
async def fetch(
    run: Run,
    *,
    messages: Messages = None,
    body_size: Size = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Messages per fetch.")] = 5000,
    ack: Annotated[
        str | None,
        choice_option("--ack", choices=("none", "explicit"), help="Acknowledgement policy (none)."),
    ] = None,
    storage: Storage = None,
    replicas: Replicas = 1,
) -> None:
    """Fetch messages from a pull consumer."""
    number, bytes_, policy = messages or 100_000, 128 if body_size is None else body_size, ack or "none"
    async with run.jetstream() as js, _stream(js, storage, replicas) as name:
        await _fill(run, js, name, number, bytes_, 4096)
        config = ConsumerConfig(name="bench", ack_policy=policy, max_ack_pending=-1, inactive_threshold=60.0)
        consumer = await js.create_consumer(name, config)
        got = 0
        with run.out.progress("Fetching", number) as progress:
            began = time.perf_counter()
            while got < number:
                fetched = await consumer.fetch(min(batch, number - got), expires=run.settings.seconds)
                if fetched.error is not None:
                    raise fetched.error
                fetched.ack()
                got += len(fetched)
                progress.reach(got)
            await js.connection.flush()
            seconds = time.perf_counter() - began
    _show(run, "fetch", number, bytes_, seconds, batch=batch, ack=policy)


@command(app, "latency", examples="jetspark bench latency --msgs 1000 --size 1KB")
async def latency(
    run: Run,
    *,
    messages: Probes = None,
    body_size: Size = None,
    storage: Storage = None,
    replicas: Replicas = 1,
) -> None:
    """Measure the time from publish to acknowledgement, and to delivery, one message at a time."""
    number, data = messages or 1000, bytes(128 if body_size is None else body_size)
    acked: list[float] = []
    arrived: list[float] = []
    async with run.jetstream() as js, _stream(js, storage, replicas) as name:
        reader = await js.create_consumer(
            name, ConsumerConfig(name="bench", ack_policy=AckPolicy.NONE, inactive_threshold=60.0)
        )
        async with reader.messages() as incoming:
            with run.out.progress("Measuring", number) as progress:
                for _ in range(number):
                    began = time.perf_counter()
                    await js.publish(name, data)
                    acked.append(time.perf_counter() - began)
                    await incoming.next(run.settings.seconds)
                    arrived.append(time.perf_counter() - began)
                    progress.advance(1)
    if run.out.json:
        record = {"bench": "latency", "messages": number, "size": len(data)}
        run.out.value({**record, "ack": _percentiles(acked), "delivery": _percentiles(arrived)})
        return
    rows = (("acknowledged", _percentiles(acked)), ("delivered", _percentiles(arrived)))
    run.out.table(
        ("", *_percentiles(acked)),
        ((what, *map(show_duration, figures.values())) for what, figures in rows),
        empty="",
    )


@asynccontextmanager
async def _stream(js: JetStream, storage: str | None, replicas: int) -> AsyncIterator[str]:
    """A temporary stream. Its only subject is its name."""
    name = f"JETSPARK_BENCH_{secrets.token_hex(4)}"
    try:
        await js.create_stream(StreamConfig(name=name, storage=storage or "file", num_replicas=replicas))
    except asyncio.CancelledError:
        with suppress(Error):  # The server may have created it.
            await js.delete_stream(name)
        raise
    try:
        yield name
    finally:
        await js.delete_stream(name)


async def _fill(run: Run, js: JetStream, subject: str, number: int, size: int, window: int) -> float:  # noqa: PLR0917
    """Publish, and return the seconds until all messages were acknowledged."""
    data = bytes(size)
    with run.out.progress("Publishing", number) as progress:
        began = time.perf_counter()
        async with js.publisher(max_pending=window) as publisher:
            for index in range(number):
                await publisher.send(subject, data)
                if index % 1000 == 0:
                    progress.reach(publisher.acked)
        return time.perf_counter() - began


def _show(run: Run, bench: str, number: int, size: int, seconds: float, **settings: Any) -> None:
    details = ", ".join(f"{name} {value}" for name, value in settings.items())
    bytes_per_second = round(number * size / seconds)
    run.out.result(
        {
            "bench": bench,
            "messages": number,
            "size": size,
            **settings,
            "seconds": round(seconds, 6),
            "messages_per_second": round(number / seconds),
            "bytes_per_second": bytes_per_second,
        },
        f"{bench}: {show_count(number, 'message')} of {show_bytes(size)}, {details}, in {seconds:.2f} s: "
        f"{show_rate(number, seconds)} messages/s, {show_bytes(bytes_per_second)}/s",
    )


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    figures = {"min": ordered[0]}
    for percent in _PERCENTILES:
        figures[f"p{percent}"] = ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]
    return {name: round(value, 9) for name, value in {**figures, "max": ordered[-1]}.items()}
