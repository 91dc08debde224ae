"""The control stream in one bounded pass: the switch, the reports of agents and jobs.

`jetspark.logs.control` reads the same; the console reads it every two seconds, however many agents there are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from jetspark.jetstream.context import JetStream
from jetspark.logs.control.switch import (
    AGENTS,
    CONTROL_PREFIX,
    CONTROL_STREAM,
    SHIPPERS,
    AgentReport,
    Switch,
    parse_report,
    parse_switch,
)
from jetspark.reports.jobs import HISTORY, JOBS, JobReport

__all__ = ["Reports", "read_reports"]

#: Messages and bytes that are read at most: any client may publish there.
_MESSAGES: Final = 5000
_BYTES: Final = 16 << 20
#: Larger numbers are not of an agent or a job.
_LARGEST: Final = 2**53


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
