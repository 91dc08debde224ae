"""What all pages share: the header, the banner for errors, dialogs, and how a page is kept up to date."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from nicegui import ui

from jetspark.console.actions import Actions
from jetspark.console.collector import Collector
from jetspark.console.text import clip, line, show_duration, show_time
from jetspark.errors import Error
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.base import Model

__all__ = ["PAUSES", "LivePage", "PageContext", "details", "failing", "figure", "page", "panel", "settings"]

_TABS: Final = (
    ("Overview", "/"),
    ("Buckets", "/buckets"),
    ("Dead letters", "/dead-letters"),
    ("Logs", "/logs"),
)

#: How long something can be paused; 0 is until it is resumed.
PAUSES: Final = {60: "1 minute", 600: "10 minutes", 3600: "1 hour", 86400: "1 day", 0: "until resumed"}


@dataclasses.dataclass(frozen=True)
class PageContext:
    """What pages work with."""

    js: JetStream
    collector: Collector
    actions: Actions


class LivePage:
    """One page in one browser tab. Its parts are updated after every poll."""

    def __init__(self, context: PageContext) -> None:
        self.context = context
        self._updates: list[Callable[[], None]] = []

    def on_update(self, *updates: Callable[[], None]) -> None:
        """Call these after every poll."""
        self._updates += updates

    def update(self) -> None:
        """Update all parts now."""
        for update in self._updates:
            update()

    @property
    def who(self) -> str:
        """Where the browser is."""
        return ui.context.client.ip

    async def act(self, question: str, advice: str, action: Callable[[], Awaitable[Any]], done: str) -> bool:
        """Do something after the operator has confirmed it. Shows the result; True if it was done."""
        if not await _confirmed(question, advice):
            return False
        try:
            await action()
        except Error as error:
            ui.notify(line(error, 300), type="negative", position="top")
            return False
        ui.notify(done, type="positive", position="top")
        await self.context.collector.refresh()
        return True


@contextmanager
def page(context: PageContext, title: str, here: str, *, stream: str | None = None) -> Iterator[LivePage]:
    """The frame of a page. Its content is built inside."""
    ui.page_title(f"{title} · jetspark")
    client = ui.context.client
    shown = LivePage(context)
    with ui.header().classes("bar"):
        with ui.element("a").props('href="/"').classes("brand"):
            ui.icon("bolt").style("color: var(--accent); font-size: 22px")
            ui.label("jetspark")
        for name, path in _TABS:
            tab = ui.element("a").props(f'href="{path}"').classes("tab")
            with tab:
                ui.label(name)
            if path == here:
                tab.classes("here")
        ui.element("div").classes("push")
        server = ui.label().classes("soft")
        write = context.actions.write
        ui.label("may write" if write else "read-only").classes("badge write" if write else "badge")
    banner = ui.label().classes("banner")

    def show_server() -> None:
        nc = context.js.connection
        info = nc.server_info
        cluster = f" in {info.cluster}" if info.cluster else ""
        text = line(f"{info.server_name}{cluster} · {info.version}", 80)
        if server.text != text:
            server.text = text
        problem = "" if nc.connected else f"The server cannot be reached, reconnecting: {nc.last_error}"
        for part, error in context.collector.errors.items():
            problem = problem or f"Cannot read {part}: {error}"
        if banner.text != line(problem, 400):
            banner.text = line(problem, 400)
        banner.visible = bool(problem)

    shown.on_update(show_server)
    show_server()
    yield shown

    def update() -> None:
        if client.has_socket_connection:
            shown.update()

    client.on_delete(context.collector.watch(update, stream=stream))


@contextmanager
def panel(title: str = "") -> Iterator[ui.element]:
    """A part of a page."""
    with ui.element("div").classes("panel") as element:
        if title:
            ui.label(title).classes("title")
        yield element


def figure(name: str, value: Callable[[], str], marker: str = "") -> Callable[[], None]:
    """A large number. Returns the function that updates it."""
    with ui.element("div").classes("figure"):
        label = ui.label(value()).classes("value")
        if marker:
            label.props(f'data-figure="{marker}"')
        ui.label(name).classes("name")

    def update() -> None:
        if label.text != (text := value()):
            label.text = text

    return update


def details(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values."""
    with ui.element("div").classes("pairs"):
        for name, value in pairs:
            ui.label(line(name))
            ui.label(line(value, 1000))


def settings(config: Model) -> list[tuple[str, object]]:
    """The fields of a configuration that are set. Durations are seconds there, and the only floats."""
    found: list[tuple[str, object]] = []
    for field in config.__struct_fields__:
        value = getattr(config, field)
        if value is None or value is False or value in ("", [], {}) or field in ("name", "extra"):
            continue
        if isinstance(value, float):
            value = show_duration(value)
        elif isinstance(value, datetime):
            value = show_time(value)
        elif isinstance(value, dict):
            value = ", ".join(f"{key}={each}" for key, each in value.items())
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        found.append((field, value))
    return found


@contextmanager
def failing(label: ui.label) -> Iterator[None]:
    """Show an error of the library in a label; nothing if there is none."""
    try:
        yield
    except Error as error:
        label.text = line(error, 500)
    else:
        label.text = ""


async def _confirmed(question: str, advice: str) -> bool:
    with ui.dialog() as dialog, ui.element("div").classes("panel"):
        ui.label(clip(question, 500)).classes("title")
        if advice:
            ui.label(advice).classes("soft")
        with ui.element("div").classes("tools"):
            ui.element("div").classes("push")
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            ui.button("Confirm", on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
    try:
        return bool(await dialog)
    finally:
        dialog.delete()
