"""Offsets of a worker: every version of jetspark reads the checkpoints of the versions before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from jetspark.errors import UsageError
from jetspark.spark.queue.offsets import Delivered, QueueOffset
from jetspark.spark.read.offsets import Offset
from tests.support.cases import for_each

CREATED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)

# Byte for byte. Checkpoints live for years, so these texts never change.
GOLDEN = (
    '{"version": 1, "consumer": "worker", "batch": 7, "streams": {'
    '"EVENTS": {"created": "2026-01-31T12:00:00.123456+00:00", "ack": "$JS.ACK.hub.x1.EVENTS.worker", '
    '"delivered": {}}, '
    '"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "delivered": {"1": "1-4,9", "3": "6"}}}}'
)
OFFSET = QueueOffset(
    consumer="worker",
    batch=7,
    streams={
        "ORDERS": Delivered(created=CREATED, messages={1: 1, 2: 1, 3: 1, 4: 1, 6: 3, 9: 1}),
        "EVENTS": Delivered(created=CREATED, ack="$JS.ACK.hub.x1.EVENTS.worker"),
    },
)


def test_the_text_never_changes() -> None:
    assert json.dumps(OFFSET.to_json()) == GOLDEN
    assert QueueOffset.from_json(json.loads(GOLDEN), "worker") == OFFSET
    assert len(OFFSET) == 6
    assert list(QueueOffset.from_json(json.loads(GOLDEN), "worker").streams["ORDERS"].messages) == [
        1,
        2,
        3,
        4,
        6,
        9,
    ]


@for_each(
    ("text", "said"),
    [
        (
            GOLDEN.replace('"worker"', '"other"'),
            "to a query of consumer other, not to one of consumer worker",
        ),
        (
            '{"version": 1, "streams": {}}',
            "to a query without option consumer, not to one of consumer worker",
        ),
        (GOLDEN.replace('"version": 1', '"version": 2'), "version 2; this jetspark reads 1"),
        (GOLDEN.replace("1-4", "4-1"), "not of format jetstream"),
        (GOLDEN.replace('"batch": 7, ', ""), "not of format jetstream"),
        (GOLDEN.replace('"$JS.ACK.hub.x1.EVENTS.worker"', "5"), "not of format jetstream"),
    ],
)
def test_the_checkpoint_of_another_query_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        QueueOffset.from_json(json.loads(text), "worker")


def test_a_query_without_a_consumer_refuses_the_checkpoint_of_a_worker() -> None:
    with pytest.raises(UsageError, match="not of format jetstream"):
        Offset.from_json(json.loads(GOLDEN))
