"""When a streaming query plans a batch, and where it begins. Without Spark, which would be slow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jetspark import StreamConfig, blocking
from jetspark.jetstream.read.ranges import StreamRange
from jetspark.server import Server, User, run
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.read.batch import JetStreamReader
from jetspark.spark.read.partition import RangePartition
from jetspark.spark.read.stream import JetStreamStreamReader
from tests.spark.running import ADMISSION_CONTROL


@pytest.fixture
def streams(server: Server) -> Iterator[blocking.JetStream]:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        for name in ("A", "B"):
            js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory"))
        yield js


def ranges_of(reader: JetStreamReader) -> Iterator[StreamRange]:
    for part in reader.partitions():
        assert isinstance(part, RangePartition)
        yield from part.ranges


def sequences(offset: dict[str, Any]) -> dict[str, int]:
    return {name: stream["next_seq"] for name, stream in offset["streams"].items()}


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="Spark does not ask for the limits of a batch")
def test_a_batch_waits_for_enough_messages_or_for_its_time(
    server: Server, streams: blocking.JetStream
) -> None:
    now = 1000.0
    options = {"servers": server.url, "stream": "A", "startingPosition": "earliest"}
    limits = {"minMessagesPerTrigger": "3", "maxTriggerDelay": "10s"}
    reader = JetStreamStreamReader(parse_options({**options, **limits}), clock=lambda: now)
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    streams.publish("A.1")
    first = reader.latestOffset(start, limit)
    assert first != start, "the first batch does not wait"
    for _ in range(2):
        streams.publish("A.1")
        assert reader.latestOffset(first, limit) == first
    streams.publish("A.1")
    second = reader.latestOffset(first, limit)
    assert second != first
    streams.publish("A.1")
    now += 9.0
    assert reader.latestOffset(second, limit) == second
    now += 2.0
    third = reader.latestOffset(second, limit)
    assert third != second
    streams.publish("A.1")
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(third, limit) != third, "availableNow does not wait"


def test_each_stream_may_begin_at_its_own_time(server: Server, streams: blocking.JetStream) -> None:
    for subject in ("A.1", "B.1", "A.2", "B.2"):
        streams.publish(subject)
        if subject == "B.1":
            middle = streams.get_stream("B").get_message(1).timestamp
    texts = {"servers": server.url, "stream": "A,B"}
    times = json.dumps({"A": middle.isoformat()})
    reader = JetStreamReader(parse_options({**texts, "startingTimestamp": times}))
    found = {each.stream: each.first_seq for each in ranges_of(reader)}
    assert found == {"A": 2, "B": 1}
    past = json.dumps({"B": datetime(2000, 1, 1, tzinfo=UTC).isoformat()})
    ended = JetStreamReader(parse_options({**texts, "endingTimestamp": past}))
    found = {each.stream: each.next_seq for each in ranges_of(ended)}
    assert found == {"A": 3}


def test_a_context_says_where_and_as_whom_to_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "nats" / "context").mkdir(parents=True)
    with run(users=[User(user="a", password="b")], domain="hub") as guarded:
        context = {"url": guarded.url, "user": "a", "password": "b", "jetstream_domain": "hub"}
        (tmp_path / "nats" / "context" / "prod.json").write_text(json.dumps(context))
        with process_connection(parse_options({"context": "prod"}).connection, retry_for=60) as connection:
            assert connection.run(connection.js.account_info()).domain == "hub"
