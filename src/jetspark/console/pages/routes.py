"""The addresses of the pages."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from jetspark.console.pages import buckets, consumer, dead_letters, logs, overview, stream
from jetspark.console.pages.frame import PageContext

__all__ = ["register"]

#: Seconds for a page that asks the server: each request has its own deadline, which is shorter.
_TIMEOUT: Final = 30.0


def register(context: PageContext) -> None:
    """Register all pages. NiceGUI has one application per process, and so only one console can be there."""

    @ui.page("/")
    def show_overview() -> None:
        overview.build(context)

    @ui.page("/stream/{name}", response_timeout=_TIMEOUT)
    async def show_stream(name: str) -> None:
        await stream.build(context, name)

    @ui.page("/consumer/{stream_name}/{name}", response_timeout=_TIMEOUT)
    async def show_consumer(stream_name: str, name: str) -> None:
        await consumer.build(context, stream_name, name)

    @ui.page("/buckets")
    def show_buckets() -> None:
        buckets.build(context)

    @ui.page("/bucket/{kind}/{name}", response_timeout=_TIMEOUT)
    async def show_bucket(kind: str, name: str) -> None:
        await buckets.build_bucket(context, kind, name)

    @ui.page("/dead-letters")
    def show_dead_letters(stream: str = "", consumer: str = "") -> None:
        dead_letters.build(context, stream, consumer)

    @ui.page("/logs")
    def show_logs() -> None:
        logs.build(context)
