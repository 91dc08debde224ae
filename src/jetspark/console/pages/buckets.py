"""`/buckets` and `/bucket/KIND/NAME`: key-value buckets with keys and revisions, stores with objects."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from nicegui import ui

from jetspark.console.buckets import bucket_of, read_history, read_keys, read_objects
from jetspark.console.collector import Collector, WatchedStream
from jetspark.console.pages.frame import PageContext, details, failing, page, panel
from jetspark.console.pages.table import Column, PagedTable, numbers
from jetspark.console.text import line, show_ago, show_bytes, show_count, show_time
from jetspark.jetstream.objects.info import ObjectInfo

__all__ = ["build", "build_bucket"]


def build(context: PageContext) -> None:
    """Build the list of buckets."""
    with page(context, "Buckets", "/buckets") as shown, panel("Buckets"):
        shown.on_update(_buckets_table(context.collector).update)


def _buckets_table(collector: Collector) -> PagedTable[WatchedStream]:
    def bucket(stream: WatchedStream) -> tuple[str, str]:
        return bucket_of(stream.listed.name) or ("", "")

    return PagedTable(
        [
            Column(
                "name",
                "Bucket",
                lambda each: line(bucket(each)[1]),
                lambda each: bucket(each)[1],
                style="link",
            ),
            Column("kind", "Kind", lambda each: bucket(each)[0], lambda each: bucket(each)[0]),
            numbers("messages", "Messages", lambda each: each.listed.state.messages, show_count),
            numbers("bytes", "Size", lambda each: each.listed.state.bytes, show_bytes),
            Column(
                "when",
                "Last change",
                lambda each: show_ago(each.listed.state.last_ts, datetime.now(UTC)),
                lambda each: each.listed.state.last_seq,
                number=True,
            ),
        ],
        lambda: [each for each in collector.streams.values() if bucket_of(each.listed.name)],
        key=lambda each: each.listed.name,
        sort="name",
        link=lambda each: "/bucket/" + "/".join(quote(part, safe="") for part in bucket(each)),
        search="Filter buckets",
        empty="No buckets",
        marker="buckets",
    )


async def build_bucket(context: PageContext, kind: str, name: str) -> None:
    """Build the page of a bucket."""
    with page(context, line(name, 60), "/buckets"):
        ui.label(f"Bucket {line(name)}").style("font-size: 20px; font-weight: 600")
        if kind == "objects":
            with panel("Objects"):
                await _objects(context, name)
        else:
            with panel("Keys"):
                await KeyBrowser(context, name).show()


async def _objects(context: PageContext, name: str) -> None:
    error = ui.label().style("color: var(--bad)")
    found: list[ObjectInfo] = []
    with failing(error):
        found = await read_objects(context.js, name)
    PagedTable[ObjectInfo](
        [
            Column("name", "Object", lambda each: line(each.name), lambda each: each.name, style="long"),
            numbers("size", "Size", lambda each: each.size, show_bytes),
            numbers("chunks", "Chunks", lambda each: each.chunks, show_count),
            Column("modified", "Stored (UTC)", lambda each: show_time(each.modified)),
            Column("digest", "Digest", lambda each: line(each.digest, 80), style="long"),
            Column("description", "Description", lambda each: line(each.description or ""), style="long"),
        ],
        lambda: found,
        key=lambda each: line(each.name, 1000),
        sort="name",
        rows=25,
        search="Filter objects",
        empty="No objects",
        marker="objects",
    )


class KeyBrowser:
    """The keys of a bucket, and the revisions of one."""

    def __init__(self, context: PageContext, bucket: str) -> None:
        self._js, self._bucket = context.js, bucket
        self._keys: list[str] = []
        with ui.element("div").classes("tools"):
            self._filter = ui.input(placeholder="Keys, such as users.>").props("dense outlined")
            ui.button("Show", on_click=self.show).props("unelevated no-caps dense padding='6px 14px'")
        self._error = ui.label().style("color: var(--bad)")
        self._table = PagedTable[str](
            [Column("key", "Key", line, lambda key: key)],
            lambda: self._keys,
            key=lambda key: line(key, 1000),
            sort="key",
            rows=25,
            empty="No keys",
            on_click=self._open,
            marker="keys",
        )

    async def show(self) -> None:
        """Read the keys."""
        with failing(self._error):
            wanted = str(self._filter.value or "").strip()
            self._keys = await read_keys(self._js, self._bucket, wanted or ">")
            self._table.update()

    async def _open(self, key: str) -> None:
        with failing(self._error):
            revisions = await read_history(self._js, self._bucket, key)
            with ui.dialog() as dialog, ui.element("div").classes("panel wide"):
                with ui.element("div").classes("tools"):
                    ui.label(line(key)).classes("title")
                    ui.element("div").classes("push")
                    ui.button(icon="close", on_click=dialog.close).props("flat dense round")
                for revision in revisions[:10]:
                    details(
                        [
                            ("Revision", revision.number),
                            ("Stored (UTC)", show_time(revision.time)),
                            ("Operation", revision.operation),
                            ("Size", show_bytes(revision.size)),
                        ]
                    )
                    if revision.size:
                        with ui.element("pre").classes("body mono"):
                            ui.label(revision.body.text).props("data-body").style("white-space: inherit")
            dialog.on("hide", dialog.delete)
            dialog.open()
