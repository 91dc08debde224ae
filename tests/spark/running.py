"""Streaming queries whose batches a test can look at, and make fail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.support import LONG, finish, texts
from tests.support.waiting import wait_until

#: The version of Spark, because the older ones do some things differently.
VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
#: Whether Spark passes the position of a query and a limit to its source.
ADMISSION_CONTROL = VERSION >= (4, 2)


class Sink:
    """The output of a query, by batch: a retried batch replaces its earlier output."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        #: The batches that came, the repeated ones too.
        self.tried: list[int] = []
        #: Called with the number of each batch before it is taken; may raise.
        self.before: Callable[[int], None] = lambda _: None

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.tried.append(number)
        found = texts(frame)
        self.before(number)
        self.batches[number] = found

    @property
    def texts(self) -> list[str]:
        """All of it."""
        return list(chain.from_iterable(self.batches.values()))

    @property
    def sizes(self) -> list[int]:
        """How many rows each batch had, in order; those without are left out."""
        return [len(rows) for _, rows in sorted(self.batches.items()) if rows]


def start(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Start a query into a sink; by default it ends when it has read everything available."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def run(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """The same, and wait for its end. Raises its error."""
    query = start(frame, sink, checkpoint, **trigger)
    finish(query)
    return query


def reached(sink: Sink, count: int, query: StreamingQuery) -> None:
    """Wait until so many rows came; an error of the query is raised."""

    def enough() -> bool:
        if error := query.exception():
            raise error
        return len(sink.texts) >= count

    wait_until(enough, f"{count} rows", LONG)


def error_of(action: Callable[[], object]) -> str:
    """The text of the error that Spark raises."""
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)
