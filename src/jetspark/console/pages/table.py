"""A table whose rows stay on the server: it sorts, filters and pages them, and sends only what is shown.

So ten thousand streams cost a browser as much as ten. A page is sent again only if it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from nicegui import events, ui

__all__ = ["Column", "PagedTable", "numbers"]

T = TypeVar("T")
V = TypeVar("V")

#: Rows of a page at most, whatever the browser asks for.
_MOST: Final = 100
#: So few rows need no pages.
_FEW: Final = 10

# Vue templates. What they show is text: `{{ }}` escapes it.
_LINK: Final = (
    '<q-td :props="props"><a v-if="props.row.link" :href="props.row.link">{{ props.value }}</a>'
    "<span v-else>{{ props.value }}</span></q-td>"
)
_STATE: Final = (
    """<q-td :props="props"><span :class="'dot ' + props.row.tone"></span>{{ props.value }}</q-td>"""
)


class Column(NamedTuple, Generic[T]):
    """A column: its heading, the text of a cell, and what it is sorted by."""

    name: str
    label: str
    text: Callable[[T], str]
    #: None: it cannot be sorted by it.
    order: Callable[[T], Any] | None = None
    #: Numbers are aligned right.
    number: bool = False
    #: `link` shows a link to the row, `state` a coloured dot before the text; `long` cuts the text, `wrap`
    #: breaks it into lines.
    style: str = ""


def numbers(name: str, label: str, value: Callable[[T], V], show: Callable[[V], str]) -> Column[T]:
    """A column of numbers, sorted by what it shows."""
    return Column(name, label, lambda each: show(value(each)), value, number=True)


class PagedTable(Generic[T]):
    """The table. Call `update` when the entries changed."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        entries: Callable[[], Collection[T]],
        *,
        key: Callable[[T], str],
        sort: str = "",
        descending: bool = False,
        rows: int = 10,
        empty: str = "Nothing here",
        link: Callable[[T], str] | None = None,
        tone: Callable[[T], str] | None = None,
        search: str = "",
        selection: bool = False,
        on_click: Callable[[T], Any] | None = None,
        marker: str = "",
    ) -> None:
        self._columns = {column.name: column for column in columns}
        self._entries = entries
        self._key, self._link, self._tone = key, link, tone
        self._filter = ""
        self._shown: list[T] = []
        self._on_click = on_click
        if search:
            box = (
                ui.input(placeholder=search).props("dense outlined clearable debounce=250").classes("search")
            )
            box.on_value_change(self._search)
            if marker:
                box.props(f'data-search="{marker}"')
        self._table = ui.table(
            columns=[_column(column) for column in columns],
            rows=[],
            row_key="key",
            selection="multiple" if selection else None,
            pagination={
                "sortBy": sort or None,
                "descending": descending,
                "page": 1,
                "rowsPerPage": rows,
                "rowsNumber": 0,
            },
        ).props(
            f'flat dense binary-state-sort :rows-per-page-options="[10, 25, 50, 100]" no-data-label="{empty}"'
        )
        if marker:
            self._table.props(f'data-table="{marker}"')
        for column in columns:
            if column.style in ("link", "state"):
                template = _LINK if column.style == "link" else _STATE
                self._table.add_slot(f"body-cell-{column.name}", template)
        self._table.on("request", self._request)
        if on_click is not None:
            self._table.on("row-click", self._click, [[], ["key"], []])
            self._table.classes("cursor-pointer")
        self.update()

    @property
    def selected(self) -> list[str]:
        """The keys of the rows that are selected."""
        return [str(row["key"]) for row in self._table.selected]

    def unselect(self) -> None:
        """Select nothing."""
        self._table.selected = []

    def update(self) -> None:
        """Show the entries as they are now."""
        paging = dict(self._table.pagination)
        entries = self._matching()
        order = self._columns[paging["sortBy"]].order if paging.get("sortBy") in self._columns else None
        if order is not None:
            entries = sorted(entries, key=order, reverse=bool(paging.get("descending")))
        size = min(max(int(paging.get("rowsPerPage") or _MOST), 1), _MOST)
        pages = max(-(-len(entries) // size), 1)
        page = min(max(int(paging.get("page") or 1), 1), pages)
        self._shown = list(entries)[(page - 1) * size : page * size]
        paging |= {"page": page, "rowsPerPage": size, "rowsNumber": len(entries)}
        rows = [self._row(entry) for entry in self._shown]
        if rows != self._table.rows or paging != self._table.pagination:
            self._table.props["hide-pagination"] = len(entries) <= _FEW
            self._table.pagination = paging
            self._table.rows = rows

    def _matching(self) -> Collection[T]:
        entries = self._entries()
        if not self._filter:
            return list(entries)
        wanted = self._filter.lower()
        columns = [column for column in self._columns.values() if not column.number]
        return [entry for entry in entries if any(wanted in column.text(entry).lower() for column in columns)]

    def _row(self, entry: T) -> dict[str, str]:
        row = {name: column.text(entry) for name, column in self._columns.items()}
        row["key"] = self._key(entry)
        if self._link is not None:
            row["link"] = self._link(entry)
        if self._tone is not None:
            row["tone"] = self._tone(entry)
        return row

    def _search(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._filter = str(event.value or "")[:200]
        self.update()

    def _request(self, event: events.GenericEventArguments) -> None:
        asked = event.args.get("pagination", {}) if isinstance(event.args, dict) else {}
        allowed = ("sortBy", "descending", "page", "rowsPerPage")
        self._table.pagination = {
            **self._table.pagination,
            **{name: asked[name] for name in allowed if isinstance(asked.get(name), (str, int, type(None)))},
        }
        self.update()

    async def _click(self, event: events.GenericEventArguments) -> None:
        wanted = event.args[1].get("key") if isinstance(event.args, list) and len(event.args) > 1 else None
        for entry in self._shown:
            if self._key(entry) == wanted and self._on_click is not None:
                result = self._on_click(entry)
                if hasattr(result, "__await__"):
                    await result


def _column(column: Column[Any]) -> dict[str, Any]:
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "align": "right" if column.number else "left",
        "sortable": column.order is not None,
        **({"classes": column.style} if column.style in ("long", "wrap") else {}),
    }
