"""The pause switch in JetStream that every agent watches, and the status reports of agents.

The stream `JETSPARK_CONTROL` keeps the last message of each subject, so that a new agent finds the last
command:

```
jetspark.control.shippers                  the switch: {"paused": true, "until": ..., "at": ..., "by": ...}
jetspark.control.agent.<name>              the report of an agent, with the last command that it follows
jetspark.control.consumer.<stream>.<name>  a consumer that `pause` has paused on the server
jetspark.control.job.<name>                the report of a job: see `jetspark.reports`
```

Each agent compares `until` with its own clock.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from jetspark.errors import ConsumerNotFound, MessageNotFound, StreamNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.stream import Stream
from jetspark.logs.format.names import header_text
from jetspark.reports.control import (
    CONTROL_PREFIX,
    CONTROL_STREAM,
    SILENT_AFTER,
    control_stream,
    is_silent,
    parse_report,
)
from jetspark.reports.jobs import JOBS, JobReport

__all__ = [
    "AGENTS",
    "CONTROL_PREFIX",
    "CONTROL_STREAM",
    "SHIPPERS",
    "UNLIMITED",
    "AgentReport",
    "ControlState",
    "PausedConsumer",
    "Switch",
    "agent_state",
    "control_stream",
    "obeys",
    "parse_report",
    "parse_switch",
    "pause_consumer",
    "read_state",
    "read_switch",
    "resume_consumer",
    "set_switch",
]

SHIPPERS: Final = f"{CONTROL_PREFIX}.shippers"
AGENTS: Final = f"{CONTROL_PREFIX}.agent"
_CONSUMERS: Final = f"{CONTROL_PREFIX}.consumer"
#: How long a consumer is paused "until resumed": the server needs a time.
UNLIMITED: Final = timedelta(days=3650)

#: With a time zone.
_Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class Switch(msgspec.Struct, kw_only=True, frozen=True):
    """The last command: whether agents pause."""

    paused: bool = False
    #: When they resume by themselves; None: never.
    until: _Time | None = None
    at: _Time | None = None
    by: str = ""
    #: Its stream sequence. 0 if the switch was never set.
    sequence: int = 0

    def holds(self, now: datetime) -> bool:
        return self.paused and (self.until is None or now < self.until)


class AgentReport(msgspec.Struct, kw_only=True, frozen=True):
    """The status report of an agent."""

    name: str
    host: str
    pid: int
    #: `shipping`, `paused` or `stopped`.
    state: str
    #: Sequence of the command that it follows.
    obeys: int
    lines: int
    bytes: int
    behind: int
    #: When the stream received it. Set by the reader, not by the agent.
    heard: datetime | None = None


def agent_state(agent: AgentReport) -> str:
    """`shipping`, `paused`, `stopped`, or `silent` if it does not report any more."""
    return "silent" if agent.state != "stopped" and is_silent(agent.heard, SILENT_AFTER) else agent.state


def obeys(agent: AgentReport, switch: Switch) -> bool:
    """Whether an agent has received the last command of the switch, and follows it."""
    wanted = "paused" if switch.holds(datetime.now(UTC)) else "shipping"
    return agent.state == "stopped" or (agent.obeys >= switch.sequence and agent.state == wanted)


class PausedConsumer(msgspec.Struct, kw_only=True, frozen=True):
    """A consumer that `pause` has paused, and its current state on the server."""

    stream: str
    consumer: str
    paused: bool
    #: Seconds until it resumes by itself.
    remaining: float = 0.0
    #: Whether it was deleted.
    missing: bool = False


class ControlState(NamedTuple):
    """Everything that `pause --status` shows."""

    switch: Switch
    agents: list[AgentReport]
    consumers: list[PausedConsumer]
    jobs: list[JobReport]


async def read_switch(stream: Stream) -> Switch:
    try:
        message = await stream.get_last_message(SHIPPERS)
    except MessageNotFound:
        return Switch()
    return parse_switch(message.data, message.sequence)


def parse_switch(data: bytes, sequence: int) -> Switch:
    """Parse a command. An invalid one does not pause."""
    return msgspec.structs.replace(parse_report(data, Switch) or Switch(), sequence=sequence)


async def set_switch(js: JetStream, *, paused: bool, until: datetime | None = None) -> Switch:
    await control_stream(js)
    switch = Switch(paused=paused, until=until, at=datetime.now(UTC), by=_operator())
    ack = await js.publish(SHIPPERS, msgspec.json.encode(switch), expected_stream=CONTROL_STREAM)
    return msgspec.structs.replace(switch, sequence=ack.sequence)


async def pause_consumer(js: JetStream, stream: str, consumer: str, until: datetime) -> PausedConsumer:
    """Pause a consumer on the server, and record it. Raises `ConsumerNotFound`."""
    control = await control_stream(js)
    record = f"{_CONSUMERS}.{stream}.{consumer}"
    # First, so that `resume` finds the consumer even if this process dies in between.
    await js.publish(record, b"{}", expected_stream=CONTROL_STREAM)
    try:
        answer = await js.pause_consumer(stream, consumer, until)
    except (ConsumerNotFound, StreamNotFound):
        await control.purge(subject=record)
        raise
    return PausedConsumer(
        stream=stream, consumer=consumer, paused=answer.paused, remaining=answer.pause_remaining or 0.0
    )


async def resume_consumer(js: JetStream, stream: str, consumer: str) -> PausedConsumer:
    """Resume a consumer, and delete its record, even if the consumer was deleted.

    Raises `ConsumerNotFound` or `StreamNotFound` if neither exists.
    """
    gone: ConsumerNotFound | StreamNotFound | None = None
    recorded = 0
    try:
        await js.resume_consumer(stream, consumer)
    except (ConsumerNotFound, StreamNotFound) as error:
        gone = error
    with suppress(StreamNotFound):
        control = await control_stream(js, create=False)
        recorded = await control.purge(subject=f"{_CONSUMERS}.{stream}.{consumer}")
    if gone is not None and not recorded:
        raise gone
    return PausedConsumer(stream=stream, consumer=consumer, paused=False, missing=gone is not None)


async def read_state(js: JetStream) -> ControlState:
    """The switch, the agents and jobs that reported lately, and the consumers that `pause` has paused."""
    try:
        stream = await control_stream(js, create=False)
    except StreamNotFound:
        return ControlState(Switch(), [], [], [])
    agents: list[AgentReport] = []
    consumers: list[PausedConsumer] = []
    jobs: list[JobReport] = []
    async for message in stream.get_messages(subject=f"{CONTROL_PREFIX}.>"):
        if message.subject.startswith(f"{AGENTS}."):
            report = parse_report(message.data, AgentReport)
            if report is not None:
                agents.append(msgspec.structs.replace(report, heard=message.timestamp))
        elif message.subject.startswith(f"{JOBS}."):
            if (job := parse_report(message.data, JobReport)) is not None:
                jobs.append(msgspec.structs.replace(job, heard=message.timestamp))
        elif message.subject.startswith(f"{_CONSUMERS}."):
            names = message.subject.removeprefix(f"{_CONSUMERS}.").split(".")
            consumers.append(await _consumer_state(js, names))
    agents.sort(key=lambda agent: agent.name)
    jobs.sort(key=lambda job: job.name)
    return ControlState(await read_switch(stream), agents, consumers, jobs)


async def _consumer_state(js: JetStream, names: Sequence[str]) -> PausedConsumer:
    stream, consumer = names[0], names[-1]
    try:
        info = await js.consumer_info(stream, consumer)
    except (ConsumerNotFound, StreamNotFound, UsageError):  # Any client may publish a record, of any name.
        return PausedConsumer(stream=stream, consumer=consumer, paused=False, missing=True)
    return PausedConsumer(
        stream=stream, consumer=consumer, paused=bool(info.paused), remaining=info.pause_remaining or 0.0
    )


def _operator() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return header_text(f"{user}@{socket.gethostname()}")
