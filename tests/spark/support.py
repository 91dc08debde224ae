"""Shared by Spark tests: fill streams, read them, compare `writer-counter` sets."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jetspark import StreamConfig, blocking

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}

#: Seconds after which a test gives up on a query, instead of hanging.
LONG = 120


class Bench:
    """A server with streams for one test."""

    def __init__(self, url: str, js: blocking.JetStream) -> None:
        self.url = url
        self.js = js

    def stream(self, **config: Any) -> str:
        """Create a stream with a name of its own, which stores `<name>.>`; its name."""
        name = f"S{secrets.token_hex(4)}"
        self.js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **config))
        return name

    def publish(
        self, stream: str, count: int, *, writer: str = "w", first: int = 1, token: str = "a"
    ) -> None:
        """Messages `<writer>-<counter>` on `<stream>.<token>`."""
        with self.js.publisher() as publisher:
            for number in range(first, first + count):
                publisher.send(f"{stream}.{token}", f"{writer}-{number}".encode())

    def options(self, stream: str, **options: object) -> dict[str, str]:
        """The options of a read."""
        return {"servers": self.url, "stream": stream} | {key: str(value) for key, value in options.items()}

    def read(self, spark: SparkSession | ConnectSession, stream: str, **options: object) -> DataFrame:
        """The stream as a table."""
        return spark.read.format("jetstream").options(**self.options(stream, **options)).load()

    def read_stream(self, spark: SparkSession | ConnectSession, stream: str, **options: object) -> DataFrame:
        """The stream as it grows."""
        return spark.readStream.format("jetstream").options(**self.options(stream, **options)).load()


def expected(count: int, *, writer: str = "w", first: int = 1) -> list[str]:
    """The `writer-counter` texts that `publish` made."""
    return [f"{writer}-{number}" for number in range(first, first + count)]


def texts(frame: DataFrame) -> list[str]:
    """The payloads of a read, or of a table that was written from one."""
    return [bytes(row.data).decode() for row in frame.select("data").collect()]


def assert_exactly(found: Iterable[str], wanted: Iterable[str]) -> None:
    """Each once, none missing, nothing else."""
    counts, wanted_set = Counter(found), set(wanted)
    lost = sorted(wanted_set - counts.keys())
    twice = sorted(text for text, count in counts.items() if count > 1)
    unexpected = sorted(counts.keys() - wanted_set)
    assert (lost[:5], len(lost)) == ([], 0), "lost"
    assert (twice[:5], len(twice)) == ([], 0), "duplicated"
    assert (unexpected[:5], len(unexpected)) == ([], 0), "unexpected"


def to_parquet(frame: DataFrame, place: Path, **trigger: Any) -> StreamingQuery:
    """Start a query that writes to `place/out` with its checkpoint in `place/checkpoint`."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start(str(place / "out"))


def finish(query: StreamingQuery) -> None:
    """Wait for the end of a query that ends by itself. Raises its error."""
    assert query.awaitTermination(LONG), f"the query did not end: {query.status}"
