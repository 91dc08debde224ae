"""Fetch and next of the blocking API, of consumers and ordered consumers."""

from __future__ import annotations

import threading

import pytest

from jetspark import ConsumerConfig, ConsumerDeleted, PinEvent, StreamNotFound, UsageError, blocking
from tests.blocking.support import delete_when_pulled, fill
from tests.support.timing import impatient
from tests.support.waiting import wait_until


@pytest.fixture
def consumer(stream: blocking.Stream) -> blocking.Consumer:
    return stream.create_consumer(ConsumerConfig(name="c", ack_wait=60.0))


def test_fetch_returns_what_is_there(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 1000)
    batch = consumer.fetch(1000)
    assert isinstance(batch, blocking.Batch)
    assert [message.data for message in batch] == payloads
    batch.ack()


def test_fetch_returns_what_arrived_when_it_expires(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 3)
    assert len(consumer.fetch(10, expires=3)) == 3
    assert consumer.fetch(10, expires=0.1) == []
    assert consumer.next(expires=0.1) is None


def test_fetch_by_bytes(js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer) -> None:
    fill(js, stream, 100)
    assert 0 < len(consumer.fetch(max_bytes=2000, expires=10)) < 100


def test_fetch_waits_for_messages_of_other_threads(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    threading.Timer(0.1, lambda: js.publish(f"{stream.name}.x", b"late")).start()
    assert [message.data for message in consumer.fetch(1, expires=10)] == [b"late"]


def test_fetch_no_wait_takes_what_is_there_now(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    assert consumer.fetch_no_wait(10) == []
    fill(js, stream, 3)
    assert len(consumer.fetch_no_wait(10)) == 3


def test_next_and_fetch_no_wait_take_the_options_of_priority_groups(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    config = ConsumerConfig(name="o", priority_policy="overflow", priority_groups=["jobs"])
    consumer = stream.create_consumer(config)
    fill(js, stream, 3)
    assert consumer.next(0.1, group="jobs", min_pending=5) is None
    assert consumer.fetch_no_wait(1, group="jobs", min_ack_pending=5) == []
    assert consumer.next(10, group="jobs", min_pending=2) is not None


def test_pins_that_are_gained_are_told_in_a_thread(js: blocking.JetStream, stream: blocking.Stream) -> None:
    config = ConsumerConfig(name="p", priority_policy="pinned_client", priority_groups=["jobs"])
    consumer = stream.create_consumer(config)
    events: list[tuple[PinEvent, str]] = []
    removed: list[PinEvent] = []
    consumer.on_pin(lambda event: events.append((event, threading.current_thread().name)))
    consumer.on_pin(removed.append)()
    fill(js, stream, 1)
    (message,) = consumer.fetch(1)
    wait_until(lambda: len(events) == 1, "the event")
    event, thread = events[0]
    assert (event.pin_id, event.gained) == (message.headers["Nats-Pin-Id"], True)
    assert thread != threading.current_thread().name
    assert not removed


def test_a_consumer_can_be_used_without_a_look_at_it(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 2)
    for unseen in (
        js.get_consumer(stream.name, consumer.name, look_up=False),
        stream.get_consumer(consumer.name, look_up=False),
    ):
        with pytest.raises(UsageError, match="not looked up"):
            _ = unseen.cached_info
        assert len(unseen.fetch(1)) == 1


def test_fetch_refuses_invalid_arguments(consumer: blocking.Consumer) -> None:
    with pytest.raises(UsageError):
        consumer.fetch()
    with pytest.raises(UsageError):
        consumer.fetch_no_wait(0)
    with pytest.raises(UsageError):
        consumer.next(expires=0)


def test_fetch_raises_what_ends_it(consumer: blocking.Consumer) -> None:
    delete_when_pulled(consumer)
    with pytest.raises(ConsumerDeleted):
        consumer.fetch(1, expires=30)


def test_what_was_deleted_while_nobody_pulled_is_a_clear_end(
    js: blocking.JetStream, consumer: blocking.Consumer
) -> None:
    impatient(js._inner)
    consumer.delete()
    with pytest.raises(ConsumerDeleted):
        consumer.fetch(1, expires=30)
    with consumer.messages() as messages, pytest.raises(ConsumerDeleted):
        next(messages)
    with pytest.raises(ConsumerDeleted):
        consumer.consume(lambda message: None).wait_closed()


def test_an_ordered_consumer_reads_everything_in_order(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    payloads = fill(js, stream, 500)
    reader = js.ordered_consumer(stream.name)
    assert (reader.stream_name, reader.last_sequence, reader.cached_info) == (stream.name, 0, None)
    batch = reader.fetch(300)
    assert [message.data for message in batch] == payloads[:300]
    message = reader.next()
    assert message is not None
    assert message.data == payloads[300]
    assert [message.data for message in reader.fetch_no_wait(1000)] == payloads[301:]
    assert reader.last_sequence == 500
    assert reader.cached_info is not None
    assert "after 500" in repr(reader)
    reader.delete()


def test_an_ordered_consumer_is_an_iterator_and_consumes(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    payloads = fill(js, stream, 300)
    reader = stream.ordered_consumer(opt_start_seq=101)
    with reader.messages() as messages:
        assert [message.data for _, message in zip(range(100), messages, strict=False)] == payloads[100:200]
    seen: list[bytes] = []
    done = threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        seen.append(message.data)
        if message.data == payloads[-1]:
            done.set()

    with js.ordered_consumer(stream.name).consume(handle):
        assert done.wait(20)
    assert seen == payloads


def test_an_ordered_consumer_of_a_missing_stream_is_refused(js: blocking.JetStream) -> None:
    with pytest.raises(StreamNotFound):
        js.ordered_consumer("NO_SUCH_STREAM")
