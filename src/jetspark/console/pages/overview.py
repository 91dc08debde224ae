"""`/`: the server and the account, streams, consumers, agents, jobs, and what an operator should look at."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from jetspark.console.collector import Collector
from jetspark.console.pages.chart import Chart
from jetspark.console.pages.frame import PageContext, figure, page, panel
from jetspark.console.pages.listings import agents_table, consumers_table, jobs_table, streams_table
from jetspark.console.pages.table import Column, PagedTable
from jetspark.console.problems import Problem, problems
from jetspark.console.text import line, show_bytes, show_count, show_rate
from jetspark.jetstream.model.info import AccountInfo

__all__ = ["build"]


def build(context: PageContext) -> None:
    """Build the page."""
    collector = context.collector
    with page(context, "Overview", "/") as shown:
        with ui.element("div").classes("figures"):
            for name, value in _figures(collector):
                shown.on_update(figure(name, value, marker=name))
        with ui.element("div").classes("split"):
            stored = Chart(
                "Messages stored",
                lambda: [("stored", collector.totals.rate(0))],
                unit="per second",
                area=True,
            )
            pending = Chart(
                "Messages that wait for consumers",
                lambda: [("pending", collector.totals.level(1))],
                unit="messages",
                area=True,
            )
        shown.on_update(stored.update, pending.update)
        found: list[Problem] = []
        with panel("To look at") as element:
            listed = _problems_table(found)

        def show_problems() -> None:
            found[:] = problems(collector)
            element.visible = bool(found)
            listed.update()

        shown.on_update(show_problems)
        show_problems()
        with panel("Streams"):
            shown.on_update(streams_table(collector).update)
        with panel("Consumers"):
            shown.on_update(consumers_table(lambda: list(collector.consumers())).update)
        with panel("Agents") as agents_panel:
            agents = agents_table(collector)
        with panel("Jobs") as jobs_panel:
            jobs = jobs_table(collector)

        def show_logs() -> None:
            agents_panel.visible = bool(collector.agents)
            jobs_panel.visible = bool(collector.jobs)
            agents.update()
            jobs.update()

        shown.on_update(show_logs)
        show_logs()


def _figures(collector: Collector) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("Streams", lambda: show_count(max(collector.stream_total, len(collector.streams)))),
        ("Consumers", lambda: _of(collector, lambda account: show_count(account.consumers))),
        (
            "Messages",
            lambda: show_count(sum(each.listed.state.messages for each in collector.streams.values())),
        ),
        (
            "Storage",
            lambda: _of(collector, lambda account: _used(account.storage, account.limits.max_storage)),
        ),
        ("Memory", lambda: _of(collector, lambda account: _used(account.memory, account.limits.max_memory))),
        (
            "Stored per second",
            lambda: show_rate(sum(each.stored.rate for each in collector.streams.values())),
        ),
        ("Lag", lambda: show_count(sum(each.listed.num_pending for each in collector.consumers()))),
    ]


def _of(collector: Collector, text: Callable[[AccountInfo], str]) -> str:
    return text(collector.account) if collector.account is not None else "…"


def _used(number: int, limit: int) -> str:
    return f"{show_bytes(number)} of {show_bytes(limit)}" if limit > 0 else show_bytes(number)


def _problems_table(found: list[Problem]) -> PagedTable[Problem]:
    return PagedTable(
        [
            Column("severity", "", lambda each: each.severity, style="state"),
            Column("what", "What", lambda each: line(each.what, 240), style="link"),
            Column("advice", "What to do", lambda each: line(each.advice, 240), style="wrap"),
        ],
        lambda: found,
        key=lambda each: f"{each.what} {each.link}",
        rows=10,
        link=lambda each: each.link,
        tone=lambda each: "bad" if each.severity == "error" else "warn",
        marker="problems",
    )
