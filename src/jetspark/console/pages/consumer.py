"""`/consumer/STREAM/NAME`: lag and messages in flight over time; pause, resume, reset."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from jetspark.console.collector import WatchedConsumer
from jetspark.console.messages import parse_sequence
from jetspark.console.pages.chart import Chart, Points
from jetspark.console.pages.frame import PAUSES, LivePage, PageContext, details, figure, page, panel, settings
from jetspark.console.pages.listings import consumer_state, stream_link
from jetspark.console.text import line, show_ago, show_count, show_rate, show_time
from jetspark.errors import Error, UsageError

__all__ = ["build"]


async def build(context: PageContext, stream: str, name: str) -> None:
    """Build the page."""
    with page(context, line(name, 60), "", stream=stream) as shown:
        with ui.element("div").classes("tools"):
            ui.label(f"Consumer {line(name)}").style("font-size: 20px; font-weight: 600")
            ui.label("of stream").classes("soft")
            ui.link(line(stream), stream_link(stream))
        try:
            info = await context.js.consumer_info(stream, name)
        except Error as error:
            ui.label(line(error, 500)).classes("banner")
            return
        if context.actions.write:
            _buttons(shown, stream, name)

        def found() -> WatchedConsumer | None:
            entry = context.collector.streams.get(stream)
            return entry.consumers.get(name) if entry is not None else None

        def of(text: Any) -> Any:
            def value() -> str:
                consumer = found()
                return str(text(consumer)) if consumer is not None else "…"

            return value

        with ui.element("div").classes("figures"):
            for label, text in (
                ("State", consumer_state),
                ("Lag", lambda each: show_count(each.listed.num_pending)),
                ("In flight", lambda each: show_count(each.listed.num_ack_pending)),
                ("Redelivered", lambda each: show_count(each.listed.num_redelivered)),
                ("Delivered per second", lambda each: show_rate(each.delivered.rate)),
                ("Pulls that wait", lambda each: show_count(each.listed.num_waiting)),
                ("Last activity", lambda each: show_ago(each.listed.last_active, datetime.now(UTC))),
            ):
                shown.on_update(figure(label, of(text), marker=label))

        def history(column: int, *, rate: bool = False) -> Points:
            consumer = found()
            if consumer is None or consumer.history is None:
                return []
            return consumer.history.rate(column) if rate else consumer.history.level(column)

        with ui.element("div").classes("split"):
            lag = Chart("Lag", lambda: [("pending", history(1))], unit="messages", area=True)
            flight = Chart(
                "In flight", lambda: [("in flight", history(2)), ("redelivered", history(3))], unit="messages"
            )
            rate = Chart(
                "Delivered", lambda: [("delivered", history(0, rate=True))], unit="per second", area=True
            )
        shown.on_update(lag.update, flight.update, rate.update)
        with ui.element("div").classes("split"):
            with panel("Position"):
                delivered, floor = info.delivered, info.ack_floor
                details(
                    [
                        ("created", show_time(info.created)),
                        (
                            "last delivered",
                            f"stream {delivered.stream_seq:,}, delivery {delivered.consumer_seq:,}",
                        ),
                        (
                            "acknowledged up to",
                            f"stream {floor.stream_seq:,}, delivery {floor.consumer_seq:,}",
                        ),
                    ]
                )
            with panel("Configuration"):
                details(settings(info.config))


def _buttons(shown: LivePage, stream: str, name: str) -> None:
    actions, title = shown.context.actions, f"{line(stream, 80)} > {line(name, 80)}"

    async def pause() -> None:
        seconds = float(duration.value or 0) or None
        await shown.act(
            f"Pause consumer {title} ({PAUSES[int(duration.value or 0)]})?",
            "The server delivers nothing until then. No message is lost.",
            lambda: actions.pause_consumer(shown.who, stream, name, seconds),
            "The consumer is paused",
        )

    async def resume() -> None:
        await shown.act(
            f"Resume consumer {title}?",
            "",
            lambda: actions.resume_consumer(shown.who, stream, name),
            "The consumer is resumed",
        )

    async def reset() -> None:
        try:
            sequence = parse_sequence(place.value) if place.value else None
        except UsageError as error:
            ui.notify(line(error), type="negative", position="top")
            return
        where = f"at sequence {sequence:,}" if sequence else "after the last acknowledged message"
        await shown.act(
            f"Let consumer {title} continue {where}?",
            "Messages that were delivered already may be delivered again.",
            lambda: actions.reset_consumer(shown.who, stream, name, sequence),
            "The consumer is reset",
        )

    with panel(), ui.element("div").classes("tools"):
        duration = ui.select(PAUSES, value=600).props("dense outlined options-dense").style("width: 150px")
        ui.button("Pause", icon="pause", on_click=pause).props("unelevated no-caps dense padding='6px 14px'")
        ui.button("Resume", icon="play_arrow", on_click=resume).props(
            "outline no-caps dense padding='6px 14px'"
        )
        ui.element("div").classes("push")
        place = ui.input(placeholder="Sequence").props("dense outlined").style("width: 150px")
        ui.button("Reset", icon="restart_alt", on_click=reset).props(
            "outline no-caps dense padding='6px 14px'"
        )
