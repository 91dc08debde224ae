"""Messages that the job publishes: dead letters, and rows of the sink `jetstream`. Each is stored once.

A message has an id that is made of what it is about, so that the stream drops it when it comes again. A
stream remembers ids for a while only. A batch that may have been published before, because the job was
started anew, is therefore compared with what the stream holds since the batch was planned; how long ago that
was does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.format.message import CUT, ENCODING, FILE, HOST, OFFSET
from jetspark.logs.job.config import Config
from jetspark.logs.job.parse.decode import first_header

__all__ = [
    "DEAD_LETTER_REASON",
    "DEAD_LETTER_SEQUENCE",
    "DEAD_LETTER_STREAM",
    "Target",
    "as_dead_letters",
    "as_messages",
    "without_too_large",
]

DEAD_LETTER_REASON: Final = "Dead-Letter-Reason"
DEAD_LETTER_STREAM: Final = "Dead-Letter-Stream"
DEAD_LETTER_SEQUENCE: Final = "Dead-Letter-Sequence"
DEAD_LETTER_TRUNCATED: Final = "Dead-Letter-Truncated"

#: Headers of a line that its dead letter keeps. Others could be instructions to the server.
_KEPT: Final = (HOST, FILE, OFFSET, CUT, ENCODING)
#: A header's value is cut here: all of them must fit.
_MOST_CHARACTERS: Final = 512
#: How far the clocks of this machine and of the server may differ.
_CLOCKS: Final = timedelta(minutes=15)


class Target:
    """A subject, and the stream that stores it."""

    def __init__(self, config: Config, subject: str, stream: str, *, readable: bool, most_bytes: int) -> None:
        #: The largest payload that it takes, beside the headers.
        self.most_bytes = most_bytes
        self._options = config.connection_options()
        self._subject = subject
        self._stream = stream
        self._readable = readable

    def publish(self, messages: DataFrame, *, since: datetime | None) -> None:
        """Publish columns `data`, `headers`, `msg_id`; `since` when they may be there since then."""
        if since is not None and self._readable:
            messages = messages.join(self._stored(messages, since), "msg_id", "left_anti")
        options = {**self._options, "subject": self._subject, "stream": self._stream}
        messages.write.format("jetstream").options(**options).mode("append").save()

    def _stored(self, messages: DataFrame, since: datetime) -> DataFrame:
        options = {
            **self._options,
            "stream": self._stream,
            "subjects": self._subject,
            "startingTimestamp": (since - _CLOCKS).isoformat(),
            "failOnDataLoss": "false",  # What is gone from the stream cannot be compared with.
        }
        stored = messages.sparkSession.read.format("jetstream").options(**options).load()
        return stored.select(F.get(F.col("headers")["Nats-Msg-Id"], 0).alias("msg_id")).dropna()


def as_dead_letters(rows: DataFrame, name: str, most_bytes: int) -> DataFrame:
    """Lines that do not parse, as they were, with the reason and their place among the headers."""
    kept = {header: first_header("_headers", header) for header in _KEPT}
    own = {
        DEAD_LETTER_REASON: F.col("_reason"),
        DEAD_LETTER_STREAM: F.col("stream"),
        DEAD_LETTER_SEQUENCE: F.col("sequence").cast("string"),
        DEAD_LETTER_TRUNCATED: F.when(F.octet_length("_data") > most_bytes, F.lit("true")),
    }
    entries = [
        F.struct(F.lit(header).alias("key"), _one_line(value).alias("value"))
        for header, value in {**kept, **own}.items()
    ]
    headers = F.map_from_entries(F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull()))
    return rows.select(
        F.substring("_data", 1, most_bytes).alias("data"),
        headers.alias("headers"),
        F.concat_ws("/", F.lit(name), F.lit("dead"), *_place()).alias("msg_id"),
    )


def without_too_large(rows: DataFrame, columns: Sequence[str], most_bytes: int) -> DataFrame:
    """Rows whose columns would not fit into a message get a `_reason`, if they have none."""
    size = F.octet_length(F.to_json(F.struct(*columns))) if columns else F.lit(0)
    reason = F.when(size > most_bytes, F.lit("the row is too large"))
    return rows.withColumn("_reason", F.coalesce("_reason", reason))


def as_messages(
    rows: DataFrame, name: str, columns: tuple[str, ...], keys: tuple[str, ...] | None
) -> DataFrame:
    """Rows as JSON. `keys` are the columns that tell them apart, where that is not their place."""
    data = F.to_json(F.struct(*columns))
    if keys is None:
        ids = F.concat_ws("/", F.lit(name), F.lit("row"), *_place())
    else:
        ids = F.concat_ws("/", F.lit(name), F.lit("count"), F.sha2(F.to_json(F.struct(*keys)), 256))
    return rows.select(data.alias("data"), ids.alias("msg_id"))


def _place() -> list[Column]:
    # With the time: a stream that is deleted and made again counts from 1 again.
    when = F.unix_micros("received").cast("string")
    return [F.col("stream"), F.col("sequence").cast("string"), when]


def _one_line(value: Column) -> Column:
    return F.substring(F.regexp_replace(value, r"[\x00-\x1f\x7f]", "?"), 1, _MOST_CHARACTERS)
