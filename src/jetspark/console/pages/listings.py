"""The tables of streams, consumers, agents and jobs, which several pages show."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from urllib.parse import quote

from jetspark.console.collector import Collector, WatchedAgent, WatchedConsumer, WatchedStream
from jetspark.console.pages.table import Column, PagedTable, numbers
from jetspark.console.text import line, show_ago, show_bytes, show_count, show_rate
from jetspark.logs.control.switch import agent_state, obeys
from jetspark.reports.jobs import JobReport, job_state

__all__ = [
    "agents_table",
    "consumer_state",
    "consumers_table",
    "jobs_table",
    "moment",
    "stream_link",
    "streams_table",
]


def streams_table(collector: Collector) -> PagedTable[WatchedStream]:
    """The streams."""
    return PagedTable(
        [
            Column(
                "name",
                "Stream",
                lambda each: line(each.listed.name),
                lambda each: each.listed.name,
                style="link",
            ),
            Column(
                "subjects",
                "Subjects",
                lambda each: line(", ".join(each.listed.config.subjects or ()), 120),
                style="long",
            ),
            numbers("messages", "Messages", lambda each: each.listed.state.messages, show_count),
            numbers("bytes", "Size", lambda each: each.listed.state.bytes, show_bytes),
            numbers("rate", "In/s", lambda each: each.stored.rate, show_rate),
            Column("first", "First", lambda each: show_count(each.listed.state.first_seq), number=True),
            Column(
                "last",
                "Last",
                lambda each: show_count(each.listed.state.last_seq),
                lambda each: each.listed.state.last_seq,
                number=True,
            ),
            Column(
                "when",
                "Last message",
                lambda each: show_ago(each.listed.state.last_ts, datetime.now(UTC)),
                lambda each: _sortable(each.listed.state.last_ts),
                number=True,
            ),
            numbers("consumers", "Consumers", lambda each: each.listed.state.consumer_count, show_count),
        ],
        lambda: list(collector.streams.values()),
        key=lambda each: each.listed.name,
        sort="name",
        link=lambda each: stream_link(each.listed.name),
        search="Filter streams",
        empty="No streams",
        marker="streams",
    )


def consumers_table(
    entries: Callable[[], Collection[WatchedConsumer]], *, with_stream: bool = True
) -> PagedTable[WatchedConsumer]:
    """Consumers, those with the most lag first."""
    stream = Column[WatchedConsumer](
        "stream", "Stream", lambda each: line(each.listed.stream_name), lambda each: each.listed.stream_name
    )
    return PagedTable(
        [
            Column(
                "name",
                "Consumer",
                lambda each: line(each.listed.name),
                lambda each: each.listed.name,
                style="link",
            ),
            *([stream] if with_stream else []),
            numbers("pending", "Lag", lambda each: each.listed.num_pending, show_count),
            numbers("in_flight", "In flight", lambda each: each.listed.num_ack_pending, show_count),
            numbers("redelivered", "Redelivered", lambda each: each.listed.num_redelivered, show_count),
            numbers("rate", "Delivered/s", lambda each: each.delivered.rate, show_rate),
            Column(
                "active",
                "Last activity",
                lambda each: show_ago(each.listed.last_active, datetime.now(UTC)),
                lambda each: _sortable(each.listed.last_active),
                number=True,
            ),
            Column("state", "State", consumer_state, style="state"),
        ],
        entries,
        key=lambda each: f"{each.listed.stream_name} {each.listed.name}",
        sort="pending",
        descending=True,
        link=_consumer_link,
        tone=lambda each: {"paused": "warn", "idle": ""}.get(consumer_state(each), "good"),
        search="Filter consumers",
        empty="No consumers",
        marker="consumers",
    )


def consumer_state(consumer: WatchedConsumer) -> str:
    """`paused`, `active` if a client reads it, or `idle`."""
    listed = consumer.listed
    if listed.paused:
        return "paused"
    bound = (
        listed.push_bound if listed.config.deliver_subject else listed.num_waiting or listed.num_ack_pending
    )
    return "active" if bound else "idle"


def agents_table(collector: Collector) -> PagedTable[WatchedAgent]:
    """The agents."""
    tones = {"shipping": "good", "paused": "warn", "silent": "bad"}
    return PagedTable(
        [
            Column(
                "name",
                "Agent",
                lambda each: line(each.report.name, 80),
                lambda each: each.report.name,
                style="long",
            ),
            Column(
                "host",
                "Host",
                lambda each: line(each.report.host, 80),
                lambda each: each.report.host,
                style="long",
            ),
            Column(
                "state",
                "State",
                lambda each: line(agent_state(each.report), 20),
                lambda each: agent_state(each.report),
                style="state",
            ),
            Column(
                "obeys",
                "Obeys",
                lambda each: "yes" if obeys(each.report, collector.switch) else "no",
                lambda each: obeys(each.report, collector.switch),
            ),
            numbers("rate", "Lines/s", lambda each: each.lines.rate, show_rate),
            numbers("lines", "Lines", lambda each: each.report.lines, show_count),
            numbers("behind", "Behind", lambda each: each.report.behind, show_bytes),
            Column(
                "heard",
                "Last report",
                lambda each: show_ago(each.report.heard, datetime.now(UTC)),
                lambda each: _sortable(each.report.heard),
                number=True,
            ),
        ],
        lambda: list(collector.agents.values()),
        key=lambda each: each.report.name,
        sort="name",
        tone=lambda each: tones.get(agent_state(each.report), ""),
        empty="No agent reported in the last hour",
        marker="agents",
    )


def jobs_table(collector: Collector) -> PagedTable[JobReport]:
    """The jobs."""
    tones = {"running": "good", "starting": "warn", "failed": "bad", "silent": "bad"}
    return PagedTable(
        [
            Column("name", "Job", lambda job: line(job.name, 80), lambda job: job.name, style="long"),
            Column("state", "State", lambda job: line(job_state(job), 20), job_state, style="state"),
            numbers("rate", "Rows/s", lambda job: job.rate, show_rate),
            numbers("rows", "Rows", lambda job: job.rows, show_count),
            numbers("lag", "Lag", lambda job: job.lag, show_count),
            numbers("bad", "Dead letters", lambda job: job.bad_lines, show_count),
            Column("batch", "Last batch", _last_batch, number=True),
            Column("error", "Error", lambda job: line(job.error, 160), style="wrap"),
        ],
        lambda: list(collector.jobs.values()),
        key=lambda job: job.name,
        sort="name",
        tone=lambda job: tones.get(job_state(job), ""),
        empty="No job reported in the last hour",
        marker="jobs",
    )


def _last_batch(job: JobReport) -> str:
    if not job.batches:
        return "none yet"
    last = job.batches[-1]
    ago = show_ago(moment(last.at), datetime.now(UTC))
    return f"#{last.id}, {show_count(last.rows)} rows, {ago}"


def moment(seconds: float) -> datetime | None:
    """A time, from seconds since 1970 that a report gave."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _sortable(time: datetime | None) -> float:
    return time.timestamp() if time is not None and time.year > 1 else 0.0


def stream_link(name: str) -> str:
    """The address of the page of a stream."""
    return f"/stream/{quote(name, safe='')}"


def _consumer_link(consumer: WatchedConsumer) -> str:
    """The address of the page of a consumer."""
    listed = consumer.listed
    return f"/consumer/{quote(listed.stream_name, safe='')}/{quote(listed.name, safe='')}"
