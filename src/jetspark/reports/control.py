"""The control stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, TypeVar

from jetspark.core.json import decode_json
from jetspark.errors import RemoteProtocolError, StreamNotFound
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.stream import Stream

__all__ = [
    "CONTROL_PREFIX",
    "CONTROL_STREAM",
    "FORGOTTEN_AFTER",
    "SILENT_AFTER",
    "SILENT_JOB_AFTER",
    "STOPPED_FOR",
    "control_stream",
    "is_silent",
    "parse_report",
]

CONTROL_STREAM: Final = "JETSPARK_CONTROL"
CONTROL_PREFIX: Final = "jetspark.control"
#: Seconds after which the server deletes the last report, and that of an agent or job that was stopped.
FORGOTTEN_AFTER: Final = 3600.0
STOPPED_FOR: Final = 60.0
#: Seconds without a report after which an agent counts as dead, and a job, which a batch may keep busy.
SILENT_AFTER: Final = 10.0
SILENT_JOB_AFTER: Final = 30.0


async def control_stream(js: JetStream, *, create: bool = True) -> Stream:
    """The control stream. Raises `StreamNotFound` if it does not exist and `create` is false."""
    try:
        return await js.get_stream(CONTROL_STREAM)
    except StreamNotFound:
        if not create:
            raise
    return await js.create_stream(
        StreamConfig(
            name=CONTROL_STREAM,
            subjects=[f"{CONTROL_PREFIX}.>"],
            description="The stop button of jetspark's log shippers",
            max_msgs_per_subject=1,
            allow_direct=True,
            allow_msg_ttl=True,
        )
    )


def is_silent(heard: datetime | None, seconds: float) -> bool:
    """Whether the last report is too old, or its time is unknown."""
    return heard is None or (datetime.now(UTC) - heard).total_seconds() >= seconds


_Parsed = TypeVar("_Parsed")


def parse_report(data: bytes, kind: type[_Parsed]) -> _Parsed | None:
    """The contents of a message of the control stream; None if invalid: any client may publish there."""
    try:
        return decode_json(data, kind, f"a {kind.__name__}")
    except RemoteProtocolError:
        return None
