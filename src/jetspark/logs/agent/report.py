"""The state of an agent, and its report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from jetspark.jetstream.context import JetStream
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.control.switch import AGENTS, AgentReport
from jetspark.logs.control.watcher import SwitchWatcher
from jetspark.logs.format.names import digest, header_text, subject_token
from jetspark.reports.publisher import ReportPublisher

if TYPE_CHECKING:
    from jetspark.metrics import MetricSample

__all__ = ["AgentStatus", "agent_name", "agent_reports", "agent_samples"]


class AgentStatus(msgspec.Struct, kw_only=True, frozen=True):
    """The state and counts of an agent."""

    #: `shipping`; `paused` when the switch is set and nothing is in flight; `stopped`.
    state: str
    host: str
    subject: str
    files: int
    #: Lines and bytes that are stored.
    lines: int
    bytes: int
    #: Lines that the stream already had.
    duplicates: int
    #: Messages in flight, and bytes of files that are not read yet.
    in_flight: int = msgspec.field(name="under_way")
    behind: int


def agent_name(options: ShipOptions) -> str:
    """The name of an agent. It is stable across restarts, so that an agent has one report."""
    own = str(options.positions.absolute()) if options.file_inputs else f"stdin {os.getpid()}"
    return f"{subject_token(options.host)}-{digest(own, 6)}"


def agent_samples(name: str, status: AgentStatus) -> Iterator[MetricSample]:
    """The metrics of an agent."""
    from jetspark.metrics import MetricSample  # noqa: PLC0415 - few agents have them

    labels = (name, header_text(status.host))
    yield MetricSample("jetspark_agent_up", labels, status.state != "stopped")
    yield MetricSample("jetspark_agent_paused", labels, status.state == "paused")
    yield MetricSample("jetspark_agent_lines_total", labels, status.lines)
    yield MetricSample("jetspark_agent_bytes_total", labels, status.bytes)
    yield MetricSample("jetspark_agent_behind_bytes", labels, status.behind)
    yield MetricSample("jetspark_agent_duplicate_lines_total", labels, status.duplicates)
    yield MetricSample("jetspark_agent_in_flight_messages", labels, status.in_flight)
    yield MetricSample("jetspark_agent_files", labels, status.files)


def agent_reports(
    js: JetStream, options: ShipOptions, status: Callable[[], AgentStatus], switch: SwitchWatcher
) -> ReportPublisher:
    """The publisher of the reports of an agent."""
    name, host = agent_name(options), header_text(options.host)

    def report() -> AgentReport:
        now = status()
        return AgentReport(
            name=name,
            host=host,
            pid=os.getpid(),
            state=now.state,
            obeys=switch.switch.sequence,
            lines=now.lines,
            bytes=now.bytes,
            behind=now.behind,
        )

    return ReportPublisher(js, f"{AGENTS}.{name}", report, switch.changed)
