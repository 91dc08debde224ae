"""The control stream in one bounded pass: the switch, the reports of agents and jobs.

`jetspark.logs.control` reads the same; the console reads it every two seconds, however many agents there are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from jetspark.jetstream.context import JetStream
from jetspark.logs.control.switch import (
    AGENTS,
    CONTROL_PREFIX,
    CONTROL_STREAM,
    SHIPPERS,
    SILENT_AFTER,
    AgentReport,
    Switch,
    parse_report,
    parse_switch,
)
from jetspark.reports.jobs import HISTORY, JOBS, JobReport

__all__ = ["Reports", "agent_state", "is_silent", "job_state", "obeys", "read_reports"]

#: Messages and bytes that are read at most: any client may publish there.
_MESSAGES: Final = 5000
_BYTES: Final = 16 << 20
#: Larger numbers are not of an agent or a job.
_LARGEST: Final = 2**53
#: Seconds without a report after which a job counts as dead: a batch may keep it busy.
_SILENT_JOB: Final = 30.0


class Reports(NamedTuple):
    """What the control stream says."""

    switch: Switch
    agents: list[AgentReport]
    jobs: list[JobReport]


async def read_reports(js: JetStream) -> Reports:
    """The switch, and the agents and jobs that reported lately. Raises `StreamNotFound`."""
    stream = await js.get_stream(CONTROL_STREAM)
    switch = Switch()
    agents: list[AgentReport] = []
    jobs: list[JobReport] = []
    async for message in stream.get_messages(
        subject=f"{CONTROL_PREFIX}.>", batch=_MESSAGES, max_bytes=_BYTES
    ):
        if message.subject == SHIPPERS:
            switch = parse_switch(message.data, message.sequence)
        elif message.subject.startswith(f"{AGENTS}."):
            agent = parse_report(message.data, AgentReport)
            if agent is not None and _is_sane(agent):
                agents.append(msgspec.structs.replace(agent, heard=message.timestamp))
        elif message.subject.startswith(f"{JOBS}."):
            job = parse_report(message.data, JobReport)
            if job is not None and _is_sane(job) and all(map(_is_sane, job.batches)):
                batches = job.batches[-HISTORY:]
                jobs.append(msgspec.structs.replace(job, heard=message.timestamp, batches=batches))
    return Reports(
        switch, sorted(agents, key=lambda agent: agent.name), sorted(jobs, key=lambda job: job.name)
    )


def _is_sane(report: msgspec.Struct) -> bool:
    """Whether all numbers of a report can be drawn."""
    values = (getattr(report, field) for field in report.__struct_fields__)
    return all(0 <= value < _LARGEST for value in values if isinstance(value, int | float))


def is_silent(heard: datetime | None, seconds: float = SILENT_AFTER) -> bool:
    """Whether the last report is too old."""
    return heard is None or (datetime.now(UTC) - heard).total_seconds() >= seconds


def agent_state(agent: AgentReport) -> str:
    """`shipping`, `paused`, `stopped`, or `silent` if it does not report any more."""
    return "silent" if agent.state != "stopped" and is_silent(agent.heard) else agent.state


def job_state(job: JobReport) -> str:
    """`starting`, `running`, `stopped`, `failed`, or `silent` if it does not report any more."""
    ended = job.state in ("stopped", "failed")
    return "silent" if not ended and is_silent(job.heard, _SILENT_JOB) else job.state


def obeys(agent: AgentReport, switch: Switch) -> bool:
    """Whether an agent has received the last command of the switch, and follows it."""
    wanted = "paused" if switch.holds(datetime.now(UTC)) else "shipping"
    return agent.state == "stopped" or (agent.obeys >= switch.sequence and agent.state == wanted)
