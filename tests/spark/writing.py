"""Shared by tests of the sink: write rows, and read what the stream holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.streaming.query import StreamingQuery

from jetspark import blocking
from jetspark.blocking import JetStreamMsg

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["counted", "messages", "payloads", "start_writing", "tagged", "write"]


def counted(spark: Any, count: int, partitions: int = 2) -> Any:
    """Rows of `data` with `w-1`, `w-2` and so on, in a session of any kind."""
    return spark.range(1, count + 1, 1, partitions).selectExpr("concat('w-', id) as data")


def write(frame: Any, url: str, **options: object) -> None:
    """Write a frame, of any kind of session, to JetStream."""
    texts = {key: str(value) for key, value in options.items()}
    frame.write.format("jetstream").mode("append").options(servers=url, **texts).save()


def start_writing(frame: Any, url: str, checkpoint: Path, **options: object) -> StreamingQuery:
    """Start a query that ends when it has written everything available."""
    texts = {key: str(value) for key, value in options.items()}
    writer = frame.writeStream.format("jetstream").options(servers=url, **texts)
    query: StreamingQuery = (
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    return query


def messages(js: blocking.JetStream, stream: str) -> list[JetStreamMsg]:
    """Everything that a stream has, in order."""
    count = js.get_stream(stream).info().state.messages
    consumer = js.ordered_consumer(stream)
    found: list[JetStreamMsg] = []
    while len(found) < count:
        batch = consumer.fetch(count - len(found), expires=30)
        assert len(batch), f"{len(found)} of {count} messages could be read"
        found += batch
    consumer.delete()
    return found


def payloads(js: blocking.JetStream, stream: str) -> list[str]:
    """The texts that a stream has, in order, without the padding of `tagged`."""
    return [message.data.decode().rstrip() for message in messages(js, stream)]


def tagged(frame: Any, act: Callable[[int, int, int], None], *, size: int = 0) -> Any:
    """The rows of `counted`, padded to `size` bytes, with the number of the attempt as header `attempt`.

    Rows of two attempts differ, so they have ids. `act` is called with partition, attempt
    and how many batches the task has handed on.
    """

    def tag(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.attemptNumber()
        for number, batch in enumerate(batches, 1):
            data = [text.ljust(size) for text in batch.column(0).to_pylist()]
            kind = pa.map_(pa.string(), pa.string())
            headers = pa.array([[("attempt", str(attempt))]] * len(data), kind)
            columns = [pa.array(data, pa.string()), headers, batch.column(0)]
            yield pa.RecordBatch.from_arrays(columns, ["data", "headers", "msg_id"])
            act(partition, attempt, number)

    return frame.mapInArrow(tag, "data string, headers map<string,string>, msg_id string")
