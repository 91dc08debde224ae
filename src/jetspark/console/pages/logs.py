"""`/logs`: agents and the pause switch, jobs and their batches, the actions of this console."""

from __future__ import annotations

from datetime import UTC, datetime

from nicegui import ui

from jetspark.console.actions import Action
from jetspark.console.pages.chart import Chart, Line
from jetspark.console.pages.frame import PAUSES, LivePage, PageContext, page, panel
from jetspark.console.pages.listings import agents_table, jobs_table, moment
from jetspark.console.pages.table import Column, PagedTable, numbers
from jetspark.console.text import line, show_count, show_duration, show_rate, show_time
from jetspark.logs.control.switch import agent_state, obeys
from jetspark.reports.jobs import JobBatch, JobReport

__all__ = ["build"]

#: Lines of a chart.
_LINES = 8


def build(context: PageContext) -> None:
    """Build the page."""
    collector = context.collector
    with page(context, "Logs", "/logs") as shown:
        _switch(shown)
        with ui.element("div").classes("split"):
            lines = Chart("Lines shipped", lambda: _agents(context, 0), unit="per second")
            behind = Chart("Bytes behind", lambda: _agents(context, 1), unit="bytes")
        with panel("Agents"):
            agents = agents_table(collector)
        with ui.element("div").classes("split"):
            rows = Chart(
                "Rows written", lambda: [(job.name, _rate(job)) for job in _jobs(context)], unit="per second"
            )
            lag = Chart(
                "Lag of jobs",
                lambda: [
                    (job.name, [(batch.at, batch.lag) for batch in job.batches]) for job in _jobs(context)
                ],
                unit="messages",
            )
        with panel("Jobs"):
            jobs = jobs_table(collector)
        with panel("Errors of jobs") as errors:
            messages = ui.element("div").classes("pairs")
        shown.on_update(lines.update, behind.update, agents.update, rows.update, lag.update, jobs.update)
        known: list[tuple[str, str]] = []

        def show_errors() -> None:
            found = [(job.name, job.error) for job in _jobs(context) if job.error]
            errors.visible = bool(found)
            if found == known:
                return
            known[:] = found
            messages.clear()
            with messages:
                for name, error in found:
                    ui.label(line(name, 80))
                    ui.label(line(error, 2000))

        shown.on_update(show_errors)
        show_errors()
        with panel("Batches"):
            shown.on_update(_batches(context).update)
        with panel("Actions in this console"):
            shown.on_update(_actions(context).update)


def _switch(shown: LivePage) -> None:
    context = shown.context
    collector = context.collector

    async def pause() -> None:
        seconds = float(duration.value or 0) or None
        await shown.act(
            f"Pause all shippers ({PAUSES[int(duration.value or 0)]})?",
            "Agents publish nothing until then. They continue where they were: no line is lost.",
            lambda: context.actions.pause_shippers(shown.who, seconds),
            "The shippers were asked to pause",
        )

    async def resume() -> None:
        await shown.act(
            "Resume all shippers?",
            "",
            lambda: context.actions.resume_shippers(shown.who),
            "The shippers were asked to resume",
        )

    with panel("Pause switch"), ui.element("div").classes("tools"):
        state = ui.label().props("data-switch")
        if context.actions.write:
            ui.element("div").classes("push")
            duration = (
                ui.select(PAUSES, value=600).props("dense outlined options-dense").style("width: 150px")
            )
            ui.button("Pause shippers", icon="pause", on_click=pause).props(
                "unelevated no-caps dense padding='6px 14px'"
            )
            ui.button("Resume", icon="play_arrow", on_click=resume).props(
                "outline no-caps dense padding='6px 14px'"
            )

    def update() -> None:
        switch = collector.switch
        live = [each.report for each in collector.agents.values() if agent_state(each.report) != "silent"]
        obeying = sum(obeys(report, switch) for report in live)
        if switch.holds(datetime.now(UTC)):
            until = f"until {show_time(switch.until)} UTC" if switch.until else "until resumed"
            text = f"Shippers are paused {until}, by {switch.by}. {obeying} of {len(live)} agents obey."
        else:
            text = f"Shippers are not paused. {obeying} of {len(live)} agents obey."
        if state.text != line(text, 300):
            state.text = line(text, 300)

    shown.on_update(update)
    update()


def _agents(context: PageContext, column: int) -> list[Line]:
    busiest = sorted(context.collector.agents.values(), key=lambda each: -each.report.lines)[:_LINES]
    return [
        (each.report.name, each.history.rate(0) if column == 0 else each.history.level(1)) for each in busiest
    ]


def _jobs(context: PageContext) -> list[JobReport]:
    return sorted(context.collector.jobs.values(), key=lambda job: -job.rows)[:_LINES]


def _rate(job: JobReport) -> list[tuple[float, float]]:
    return [(batch.at, batch.rows / max(batch.seconds, 0.001)) for batch in job.batches]


def _batches(context: PageContext) -> PagedTable[tuple[str, JobBatch]]:
    return PagedTable(
        [
            Column("job", "Job", lambda each: line(each[0], 80), lambda each: each[0]),
            Column("id", "Batch", lambda each: str(each[1].id), lambda each: each[1].id, number=True),
            Column("at", "Ended (UTC)", lambda each: show_time(moment(each[1].at)), lambda each: each[1].at),
            Column(
                "rows", "Rows", lambda each: show_count(each[1].rows), lambda each: each[1].rows, number=True
            ),
            numbers("seconds", "Took", lambda each: each[1].seconds, show_duration),
            numbers("rate", "Rows/s", lambda each: each[1].rows / max(each[1].seconds, 0.001), show_rate),
            numbers("lag", "Lag after", lambda each: each[1].lag, show_count),
            numbers("bad", "Dead letters", lambda each: each[1].bad_lines, show_count),
        ],
        lambda: [
            (job.name, batch) for job in context.collector.jobs.values() for batch in job.batches[-500:]
        ],
        key=lambda each: f"{each[0]} {each[1].id} {each[1].at}",
        sort="at",
        descending=True,
        empty="No batches yet",
        marker="batches",
    )


def _actions(context: PageContext) -> PagedTable[Action]:
    return PagedTable(
        [
            Column("at", "When (UTC)", lambda each: show_time(each.at)),
            Column("who", "From", lambda each: line(each.who, 60)),
            Column("what", "What", lambda each: line(each.what, 240), style="long"),
            Column("error", "Error", lambda each: line(each.error, 240), style="wrap"),
        ],
        lambda: context.actions.done,
        key=lambda each: f"{each.at.isoformat()} {each.what}",
        empty="Nothing was done here",
        marker="actions",
    )
