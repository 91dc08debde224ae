"""`jetspark pub`: publish messages, by default to JetStream with many in flight."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Final, NamedTuple

import typer

from jetspark.cli.args import stdin
from jetspark.cli.args.parameters import count_option, duration_option, name_values, option, size_option
from jetspark.cli.args.template import Template, Verbatim
from jetspark.cli.args.units import show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.core.connection import Connection
from jetspark.errors import PermissionsViolation
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.headers import MSG_ID

app = single()

_FILLER: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class _Outgoing(NamedTuple):
    subject: str
    data: bytes
    headers: dict[str, list[str]] | None
    msg_id: str | None


class _Maker:
    """Makes messages from the arguments, with templates rendered."""

    def __init__(
        self,
        subject: str,
        body: str | None,
        headers: dict[str, list[str]],
        msg_id: str | None,
        *,
        templates: bool,
    ) -> None:
        read = Template if templates else Verbatim
        self._subject = read(subject)
        self._body = read(body) if body not in (None, "-") else None
        self._headers = {name: [read(value) for value in values] for name, values in headers.items()}
        self._msg_id = read(msg_id) if msg_id is not None else None

    @property
    def has_body(self) -> bool:
        return self._body is not None

    def make(self, number: int, data: bytes | None = None) -> _Outgoing:
        """Message `number`, with this data or else the body."""
        if data is None and self._body is not None:
            data = self._body.render(number).encode("utf-8", "surrogateescape")
        headers = None
        if self._headers:
            headers = {
                name: [value.render(number) for value in values] for name, values in self._headers.items()
            }
        return _Outgoing(
            self._subject.render(number),
            data or b"",
            headers,
            None if self._msg_id is None else self._msg_id.render(number),
        )


async def _repeated(maker: _Maker, number: int, size: int | None) -> AsyncIterator[_Outgoing]:
    data = None
    if size is not None:
        data = (_FILLER * (size // len(_FILLER) + 1))[:size]
    elif not maker.has_body:
        data = await stdin.whole()
    for each in range(1, number + 1):
        yield maker.make(each, data)


async def _from_stdin(maker: _Maker) -> AsyncIterator[_Outgoing]:
    number = 0
    async for line in stdin.lines():
        number += 1
        yield maker.make(number, line)


class _Result:
    """Counts for the summary."""

    def __init__(self) -> None:
        self.published = 0
        self.bytes = 0
        self.duplicates = 0
        self.streams: dict[str, dict[str, int]] = {}
        self._began = time.perf_counter()

    def sent(self, message: _Outgoing) -> None:
        self.published += 1
        self.bytes += len(message.data)

    def acked(self, ack: PubAck) -> None:
        self.duplicates += ack.duplicate
        span = self.streams.setdefault(ack.stream, {"first": ack.sequence, "last": ack.sequence})
        span["first"] = min(span["first"], ack.sequence)
        span["last"] = max(span["last"], ack.sequence)

    def completed(self, future: asyncio.Future[PubAck]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.acked(future.result())

    def show(self, run: Run) -> None:
        seconds = time.perf_counter() - self._began
        if run.out.json:
            run.out.value(
                {
                    "published": self.published,
                    "bytes": self.bytes,
                    "duplicates": self.duplicates,
                    "streams": self.streams,
                    "seconds": round(seconds, 6),
                }
            )
            return
        again = f", {show_count(self.duplicates)} of them duplicates" if self.duplicates else ""
        if self.published == 1:
            places = [f"{name}#{span['last']}" for name, span in self.streams.items()]
            where = f", stored as {places[0]}" if places else ""
            run.out.text(f"Published {show_bytes(self.bytes)}{where}{', a duplicate' if again else ''}")
            return
        spans = [f"{name}#{span['first']}-{span['last']}" for name, span in self.streams.items()]
        where = f", stored as {', '.join(spans)}" if spans else ""
        run.out.text(
            f"Published {show_count(self.published, 'message')}, {show_bytes(self.bytes)}{where}{again}, "
            f"in {seconds:.2f} s: {show_rate(self.published, seconds)} messages/s"
        )


@command(
    app,
    "pub",
    examples="""
    jetspark pub orders.new '{"id": 1}'
    jetspark pub orders.new 'order {{Count}} at {{Time}}' --count 1000 --msg-id 'order-{{Count}}'
    jetspark pub orders.new hello -H Source:cli -H Kind:greeting
    jetspark pub orders.new --size 1KB --count 1_000_000
    tail -f app.log | jetspark pub logs.app --lines
    """,
)
async def pub(
    run: Run,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject; can contain templates.")],
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="BODY", help="Data of the message; stdin by default, or with -.", show_default=False
        ),
    ] = None,
    *,
    number: Annotated[int | None, count_option("--count", help="Number of messages (1).")] = None,
    body_size: Annotated[int | None, size_option("--size", help="Generate data of this size.")] = None,
    header: Annotated[
        list[str] | None, option("--header", "-H", metavar="NAME:VALUE", help="Header; repeatable.")
    ] = None,
    msg_id: Annotated[
        str | None, option("--msg-id", metavar="ID", help="Message id for deduplication.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Publish each line of stdin as a message.")] = False,
    templates: Annotated[
        bool,
        typer.Option(
            "--templates/--no-templates",
            help="Render {{Count}}, {{Time}}, {{TimeStamp}}, {{Unix}}, {{UnixNano}}, {{ID}}, {{Random 1 9}}",
        ),
    ] = True,
    window: Annotated[
        int, typer.Option("--window", metavar="NUMBER", min=1, help="Maximum messages in flight.")
    ] = 4096,
    pause: Annotated[float | None, duration_option("--sleep", help="Pause between messages.")] = None,
    core: Annotated[
        bool, typer.Option("--core", help="Publish without JetStream and acknowledgements.")
    ] = False,
    reply: Annotated[
        str | None, option("--reply", metavar="SUBJECT", help="Reply subject; needs --core.")
    ] = None,
) -> None:
    """Publish messages.

    JetStream acknowledges each message; a missing acknowledgement is an error. The data is BODY, generated
    (--size), or stdin: as one message, or one per line (--lines). Templates in stdin are not rendered.
    """
    if number is not None and number < 1:
        raise Failure("--count must be at least 1", code=Exit.USAGE)
    if reply is not None and not core:
        raise Failure("--reply needs --core: JetStream uses the reply subject itself", code=Exit.USAGE)
    if lines and (body not in (None, "-") or number is not None or body_size is not None):
        raise Failure(
            "--lines reads the messages from stdin, and excludes BODY, --count and --size", code=Exit.USAGE
        )
    if not lines and body in (None, "-") and body_size is None and sys.stdin.isatty():
        run.out.note("Reading the message from the terminal; end it with Ctrl-D")
    maker = _Maker(subject, body, name_values(header, ":", "--header"), msg_id, templates=templates)
    source = _from_stdin(maker) if lines else _repeated(maker, number or 1, body_size)
    result = _Result()
    async with run.jetstream() as js:
        total = None if lines else number or 1
        with run.out.progress("Publishing", total) as progress:
            if core:
                await _publish_core(
                    js.connection, source, result, reached=progress.reach, pause=pause, reply=reply
                )
            elif total == 1:
                await _publish_one(js, await anext(source), result)
            else:
                await _publish_windowed(
                    run, js, source, result, reached=progress.reach, pause=pause, window=window
                )
        result.show(run)


async def _publish_core(
    nc: Connection,
    source: AsyncIterator[_Outgoing],
    result: _Result,
    *,
    reached: Callable[[int], None],
    pause: float | None,
    reply: str | None,
) -> None:
    async for message in source:
        await nc.publish(message.subject, message.data, headers=_with_id(message), reply=reply or "")
        result.sent(message)
        reached(result.published)
        if pause:
            await asyncio.sleep(pause)
    await nc.flush()
    # The server reports missing permissions as an error of the connection, before the flush ends.
    if isinstance(nc.last_error, PermissionsViolation):
        raise nc.last_error


def _with_id(message: _Outgoing) -> dict[str, list[str]] | None:
    return (
        message.headers if message.msg_id is None else {**(message.headers or {}), MSG_ID: [message.msg_id]}
    )


async def _publish_one(js: JetStream, message: _Outgoing, result: _Result) -> None:
    result.acked(
        await js.publish(message.subject, message.data, headers=message.headers, msg_id=message.msg_id)
    )
    result.sent(message)


async def _publish_windowed(
    run: Run,
    js: JetStream,
    source: AsyncIterator[_Outgoing],
    result: _Result,
    *,
    reached: Callable[[int], None],
    pause: float | None,
    window: int,
) -> None:
    publisher = js.publisher(max_pending=window)
    try:
        async with publisher:
            async for message in source:
                future = await publisher.send(
                    message.subject, message.data, headers=message.headers, msg_id=message.msg_id
                )
                future.add_done_callback(result.completed)
                result.sent(message)
                reached(publisher.acked)
                if publisher.failed:
                    await publisher.flush()  # raises the error
                if pause:
                    await asyncio.sleep(pause)
    except asyncio.CancelledError:
        run.out.warn(
            f"interrupted: {show_count(publisher.acked)} of {show_count(result.published, 'message')} "
            "were acknowledged"
        )
        raise
    await asyncio.sleep(0)  # the callbacks of the last acknowledgements run in this turn
