"""`/stream/NAME`: a stream, its subjects, its messages one by one, its consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from jetspark.console.collector import WatchedStream
from jetspark.console.messages import PAGE, Preview, parse_sequence, read_message, read_page, top_subjects
from jetspark.console.pages.chart import Chart, Points
from jetspark.console.pages.frame import (
    LivePage,
    PageContext,
    details,
    failing,
    figure,
    page,
    panel,
    settings,
)
from jetspark.console.pages.listings import consumers_table
from jetspark.console.pages.table import Column, PagedTable, numbers
from jetspark.console.text import line, show_ago, show_bytes, show_count, show_rate, show_time
from jetspark.errors import Error, UsageError
from jetspark.jetstream.model.info import StreamInfo

__all__ = ["build"]


async def build(context: PageContext, name: str) -> None:
    """Build the page."""
    collector = context.collector
    with page(context, line(name, 60), "", stream=name) as shown:
        ui.label(f"Stream {line(name)}").style("font-size: 20px; font-weight: 600")
        try:
            info = await (await context.js.get_stream(name)).info()
            subjects = await top_subjects(context.js, info)
        except Error as error:
            ui.label(line(error, 500)).classes("banner")
            return
        _figures(shown, name, info)

        def history(column: int, *, rate: bool) -> Points:
            stream = collector.streams.get(name)
            if stream is None or stream.history is None:
                return []
            return stream.history.rate(column) if rate else stream.history.level(column)

        with ui.element("div").classes("split"):
            stored = Chart(
                "Messages stored", lambda: [("stored", history(0, rate=True))], unit="per second", area=True
            )
            held = Chart(
                "Messages held", lambda: [("messages", history(1, rate=False))], unit="messages", area=True
            )
        shown.on_update(stored.update, held.update)
        with panel("Messages"):
            browser = MessageBrowser(context, name)
        with panel("Consumers"):
            consumers = consumers_table(lambda: _consumers(collector.streams.get(name)), with_stream=False)
            shown.on_update(consumers.update)
        with ui.element("div").classes("split"):
            with panel("Top subjects"):
                _subjects(subjects)
            with panel("Configuration"):
                details([("created", show_time(info.created)), *settings(info.config)])
        await browser.show_last()


def _consumers(stream: WatchedStream | None) -> list[Any]:
    return list(stream.consumers.values()) if stream is not None else []


def _figures(shown: LivePage, name: str, info: StreamInfo) -> None:
    collector = shown.context.collector

    def of(text: Any, otherwise: str) -> Any:
        def value() -> str:
            stream = collector.streams.get(name)
            return str(text(stream)) if stream is not None else otherwise

        return value

    state = info.state
    with ui.element("div").classes("figures"):
        for label, text, otherwise in (
            ("Messages", lambda each: show_count(each.listed.state.messages), show_count(state.messages)),
            ("Size", lambda each: show_bytes(each.listed.state.bytes), show_bytes(state.bytes)),
            ("Stored per second", lambda each: show_rate(each.stored.rate), "0"),
            (
                "First sequence",
                lambda each: show_count(each.listed.state.first_seq),
                show_count(state.first_seq),
            ),
            (
                "Last sequence",
                lambda each: show_count(each.listed.state.last_seq),
                show_count(state.last_seq),
            ),
            (
                "Last message",
                lambda each: show_ago(each.listed.state.last_ts, datetime.now(UTC)),
                show_ago(state.last_ts, datetime.now(UTC)),
            ),
            (
                "Subjects",
                lambda each: show_count(each.listed.state.num_subjects),
                show_count(state.num_subjects),
            ),
            (
                "Deleted",
                lambda each: show_count(each.listed.state.num_deleted),
                show_count(state.num_deleted),
            ),
        ):
            shown.on_update(figure(label, of(text, otherwise), marker=label))


def _subjects(subjects: list[tuple[str, int]] | None) -> None:
    if subjects is None:
        ui.label("Too many subjects to count").classes("soft")
        return
    PagedTable[tuple[str, int]](
        [
            Column("subject", "Subject", lambda each: line(each[0]), lambda each: each[0], style="long"),
            numbers("messages", "Messages", lambda each: each[1], show_count),
        ],
        lambda: subjects,
        key=lambda each: each[0].encode("utf-8", "replace").decode(),
        sort="messages",
        descending=True,
        empty="No messages",
        marker="subjects",
    )


class MessageBrowser:
    """Messages of a stream by sequence, subject or time."""

    def __init__(self, context: PageContext, stream: str) -> None:
        self._js, self._collector, self._stream = context.js, context.collector, stream
        self._messages: list[Preview] = []
        with ui.element("div").classes("tools"):
            self._subject = ui.input(placeholder="Subject, such as orders.>").props("dense outlined")
            self._sequence = ui.input(placeholder="From sequence").props("dense outlined")
            self._time = ui.input(placeholder="From time, 2026-01-31T12:00").props("dense outlined")
            ui.button("Show", on_click=self._show).props("unelevated no-caps dense padding='6px 14px'")
            ui.element("div").classes("push")
            for label, action in (
                ("First", self._first),
                ("Previous", self._previous),
                ("Next", self._next),
                ("Last", self.show_last),
            ):
                ui.button(label, on_click=action).props("flat no-caps dense padding='6px 10px'")
        self._error = ui.label().style("color: var(--bad)")
        self._table = PagedTable[Preview](
            [
                Column("sequence", "Sequence", lambda each: str(each.sequence), number=True),
                Column("time", "Stored (UTC)", lambda each: show_time(each.time)),
                Column("subject", "Subject", lambda each: each.subject, style="long"),
                Column("size", "Size", lambda each: show_bytes(each.size), number=True),
                Column("headers", "Headers", lambda each: str(each.headers), number=True),
                Column("preview", "Message", lambda each: each.text, style="long"),
            ],
            lambda: self._messages,
            key=lambda each: str(each.sequence),
            rows=PAGE,
            empty="No messages here",
            on_click=self._open,
            marker="messages",
        )

    async def show_last(self) -> None:
        """Show the end of the stream."""
        with failing(self._error):
            info = await (await self._js.get_stream(self._stream)).info()
            if subject := self._filter:
                # One message: a stream can be searched forwards only.
                message = await (await self._js.get_stream(self._stream)).get_last_message(subject)
                await self._read(sequence=message.sequence)
            else:
                await self._read(sequence=max(info.state.last_seq - PAGE + 1, info.state.first_seq))

    @property
    def _filter(self) -> str | None:
        return str(self._subject.value or "").strip() or None

    async def _show(self) -> None:
        with failing(self._error):
            sequence, time = str(self._sequence.value or "").strip(), str(self._time.value or "").strip()
            if sequence and time:
                raise UsageError("give a sequence or a time, not both")
            if time:
                await self._read(time=_time(time))
            else:
                await self._read(sequence=parse_sequence(sequence) if sequence else None)

    async def _first(self) -> None:
        with failing(self._error):
            await self._read()

    async def _next(self) -> None:
        with failing(self._error):
            await self._read(sequence=self._messages[-1].sequence + 1 if self._messages else None)

    async def _previous(self) -> None:
        with failing(self._error):
            if self._filter:
                raise UsageError(
                    "a subject can only be searched forwards", hint="Choose a sequence to begin at"
                )
            await self._read(sequence=max(self._messages[0].sequence - PAGE, 1) if self._messages else None)

    async def _read(self, *, sequence: int | None = None, time: datetime | None = None) -> None:
        found = await read_page(self._js, self._stream, sequence=sequence, subject=self._filter, time=time)
        self._messages = found
        self._table.update()

    async def _open(self, message: Preview) -> None:
        with failing(self._error):
            found = await read_message(self._js, self._stream, message.sequence)
            with ui.dialog() as dialog, ui.element("div").classes("panel wide"):
                with ui.element("div").classes("tools"):
                    ui.label(f"{line(self._stream)}#{found.sequence}").classes("title")
                    ui.element("div").classes("push")
                    ui.button(icon="close", on_click=dialog.close).props("flat dense round")
                details(
                    [
                        ("Subject", found.subject),
                        ("Stored (UTC)", show_time(found.time)),
                        ("Size", show_bytes(found.size)),
                    ]
                )
                if found.headers:
                    ui.label("Headers").classes("title")
                    details(found.headers)
                body = found.body
                ui.label(f"Body, {body.kind}" + (f": {body.note}" if body.note else "")).classes("title")
                shown = ui.element("pre").classes("body mono" + (" hex" if body.kind == "binary" else ""))
                with shown:
                    ui.label(body.text).props("data-body").style("white-space: inherit")
            dialog.on("hide", dialog.delete)
            dialog.open()


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"not a time: {line(text, 40)}", hint="Write it like 2026-01-31T12:00; without a zone it is UTC"
        ) from None
