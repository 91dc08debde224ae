"""Subjects that a job publishes to: dead letters, and rows of the sink `jetstream`. Each is stored once.

Every message has an id derived from its content, so the stream drops duplicates within its duplicate window.
The window is short. For a batch that may have been published by an earlier run, the ids are therefore
compared with the messages that the stream stored since the batch was planned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from jetspark.errors import UsageError
from jetspark.jetstream.model.stream import RetentionPolicy
from jetspark.jetstream.read.listing import stream_names
from jetspark.jetstream.read.ranges import stream_info
from jetspark.logs.job.sql import F
from jetspark.logs.toml_lines import Where
from jetspark.spark.connections import ProcessConnection
from jetspark.wire.subjects import check_subject, subjects_overlap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["TRACE_COLUMNS", "MessageTarget", "TargetFinder", "check_target", "line_id", "trace_headers"]

#: The columns of a line's trace context, and their headers, which its message or dead letter gets again.
TRACE_COLUMNS: Final = {"_traceparent": "traceparent", "_tracestate": "tracestate"}

#: The assumed limit on the difference between the clocks of this machine and of the server.
_CLOCK_SKEW: Final = timedelta(minutes=15)


def check_target(where: Where, key: str, subject: str, source_subjects: Sequence[str]) -> None:
    """Check the subject at a key. Raises `UsageError` if it is invalid or the job reads it itself."""
    try:
        check_subject(subject)
    except UsageError as error:
        raise where.error(key, str(error.args[0]), error.hint) from None
    for read in source_subjects:
        if subjects_overlap(read, subject):
            raise where.error(key, f"{subject!r} overlaps source.subjects {read!r}: the job would never end")


def line_id(name: str, kind: str) -> Column:
    """The id of a message about one line: it names the place of the line in its stream."""
    # Including the time: a stream that is deleted and created again restarts at sequence 1.
    received = F.unix_micros("received").cast("string")
    return F.concat_ws("/", F.lit(name), F.lit(kind), "stream", F.col("sequence").cast("string"), received)


def trace_headers() -> Column:
    """The headers with the trace context of a line. Anyone may have sent it: only plain text is passed on."""
    entries = [
        F.struct(
            F.lit(header).alias("key"),
            F.when(F.col(column).rlike(r"\A[ -~]{1,512}\z"), F.col(column)).alias("value"),
        )
        for column, header in TRACE_COLUMNS.items()
    ]
    return F.map_from_entries(F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull()))


class MessageTarget:
    """A subject, and the stream that stores it."""

    def __init__(
        self, options: Mapping[str, str], subject: str, stream: str, *, readable: bool, max_bytes: int
    ) -> None:
        #: The largest payload, without headers.
        self.max_bytes = max_bytes
        self._options = options
        self._subject = subject
        self._stream = stream
        self._readable = readable

    def publish(self, messages: DataFrame, *, since: datetime | None) -> None:
        """Publish columns `data`, `headers`, `msg_id`; `since` if some may have been stored since then."""
        if since is not None and self._readable:
            messages = messages.join(self._stored(messages, since), "msg_id", "left_anti")
        options = {**self._options, "subject": self._subject, "stream": self._stream}
        messages.write.format("jetstream").options(**options).mode("append").save()

    def _stored(self, messages: DataFrame, since: datetime) -> DataFrame:
        options = {
            **self._options,
            "stream": self._stream,
            "subjects": self._subject,
            "startingTimestamp": (since - _CLOCK_SKEW).isoformat(),
            "failOnDataLoss": "false",  # Deleted messages cannot be compared.
        }
        stored = messages.sparkSession.read.format("jetstream").options(**options).load()
        return stored.select(F.get(F.col("headers")["Nats-Msg-Id"], 0).alias("msg_id")).dropna()


@dataclasses.dataclass(frozen=True)
class TargetFinder:
    """Finds the streams of subjects to publish to."""

    connection: ProcessConnection
    #: The options of `format("jetstream")` to connect with.
    options: Mapping[str, str]
    #: The streams that the job reads completely.
    sources: set[str]
    where: Where

    def find(self, key: str, subject: str, header_bytes: int) -> MessageTarget:
        """The target of the subject at a key. Raises `UsageError` if it cannot be written to."""
        connection = self.connection
        names = connection.run(stream_names(connection.js.api, subject))
        if not names:
            raise self.where.error(
                key,
                f"no stream stores {subject!r}",
                f"Create one with `jetspark stream add NAME --subjects {subject}`",
            )
        if names[0] in self.sources:
            raise self.where.error(
                key,
                f"{subject!r} is stored by {names[0]}, which the job reads: it would never end",
                "Store it in another stream, or narrow source.subjects",
            )
        stream = connection.run(stream_info(connection.js.api, names[0])).config
        limit = connection.js.connection.max_payload
        if stream.max_msg_size is not None and stream.max_msg_size >= 0:
            limit = min(limit, stream.max_msg_size)
        if limit < 2 * header_bytes:
            raise self.where.error(
                key,
                f"{names[0]} accepts messages of at most {limit} bytes, but the job needs {2 * header_bytes}",
                f"Raise the limit with `jetspark stream edit {names[0]} --max-msg-size`, "
                "or the server's max_payload",
            )
        # Reading a stream of another retention would disturb its consumers.
        readable = stream.retention == RetentionPolicy.LIMITS
        return MessageTarget(
            self.options, subject, names[0], readable=readable, max_bytes=limit - header_bytes
        )
