"""The windowed publisher and the atomic batch of the blocking API."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from jetspark import (
    BatchPublishError,
    ConnectionClosed,
    MaxPayloadError,
    NoStreamForSubject,
    OutboundBufferFull,
    PubAck,
    PublishError,
    StreamConfig,
    UsageError,
    WrongLastSequence,
    blocking,
)
from jetspark.server import Server
from tests.support.untyped import untyped
from tests.support.waiting import wait_until


@pytest.fixture
def atomic(js: blocking.JetStream) -> Iterator[blocking.Stream]:
    name = f"A{secrets.token_hex(6)}"
    stream = js.create_stream(
        StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory", allow_atomic=True)
    )
    yield stream
    stream.delete()


def test_every_message_has_a_future_of_its_acknowledgement(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    with js.publisher() as publisher:
        futures = [publisher.publish(f"{stream.name}.x", b"%d" % number) for number in range(1000)]
        assert [future.result(20).sequence for future in futures] == list(range(1, 1001))
    assert (publisher.acked, publisher.failed, publisher.pending, publisher.duplicates) == (1000, 0, 0, 0)
    assert "1000 acknowledged" in repr(publisher)
    assert [message.data for message in stream.get_messages()] == [b"%d" % number for number in range(1000)]


def test_futures_that_nobody_keeps_leave_those_of_others_alone(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    kept: dict[int, Future[PubAck]] = {}
    called: dict[int, int] = {}
    with js.publisher(max_pending=100) as publisher:
        for number in range(1, 1001):
            future = publisher.send(f"{stream.name}.x", b"%d" % number)
            if number % 5 == 0:
                kept[number] = future
            elif number % 5 == 1:
                future.add_done_callback(
                    partial(lambda number, future: called.update({number: future.result().sequence}), number)
                )
            del future
        assert {number: future.result(20).sequence for number, future in kept.items()} == {n: n for n in kept}
        wait_until(lambda: len(called) == 200, "all calls")
    assert called == {number: number for number in range(1, 1001, 5)}
    assert (publisher.acked, publisher.failed) == (1000, 0)


def test_send_keeps_to_the_window(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with js.publisher(max_pending=10) as publisher:
        for number in range(500):
            publisher.send(f"{stream.name}.x", b"%d" % number)
            assert publisher.pending <= 10
        publisher.flush()
        assert publisher.pending == 0
    assert [message.data for message in stream.get_messages()] == [b"%d" % number for number in range(500)]


def test_a_window_of_one_works(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with js.publisher(1) as publisher:
        for _ in range(20):
            publisher.send(f"{stream.name}.x", b"")
    assert stream.info().state.messages == 20


def test_leaving_the_context_waits_for_everything(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with js.publisher() as publisher:
        for _ in range(5000):
            publisher.publish(f"{stream.name}.x", bytes(100))
    assert stream.info().state.messages == 5000


def test_options_of_a_message_are_kept(js: blocking.JetStream, stream: blocking.Stream) -> None:
    subject = f"{stream.name}.x"
    with js.publisher() as publisher:
        publisher.publish(subject, b"1", msg_id="a", headers={"k": "v"}).result(20)
        again = publisher.send(subject, b"1", msg_id="a").result(20)
        assert again.duplicate
        wrong = publisher.publish(subject, b"2", expected_last_sequence=7)
        assert isinstance(wrong.exception(20), WrongLastSequence)
        with pytest.raises(PublishError):
            publisher.flush()
    assert stream.get_message(1).headers["k"] == "v"


def test_errors_of_usage_are_raised_where_the_call_is(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    with js.publisher() as publisher:
        with pytest.raises(UsageError):
            publisher.publish("with space", b"")
        with pytest.raises(UsageError):
            publisher.publish("a", untyped("text"))
        with pytest.raises(UsageError):
            publisher.publish("a", b"", msg_id="")
        with pytest.raises(MaxPayloadError):
            publisher.publish("a", bytes(js.connection.max_payload))
        publisher.publish(f"{stream.name}.x", b"1").result(20)
    assert publisher.acked == 1
    with pytest.raises(UsageError):
        js.publisher(0)


def test_failures_surface_at_flush_and_on_the_future(js: blocking.JetStream, subject: str) -> None:
    with pytest.raises(PublishError) as raised, js.publisher() as publisher:
        future = publisher.publish(subject, b"")
    assert raised.value.failed == 1
    assert isinstance(future.exception(0), NoStreamForSubject)


def test_an_exception_in_the_body_goes_on(js: blocking.JetStream, stream: blocking.Stream) -> None:
    futures = []

    def publish() -> None:
        with js.publisher() as publisher:
            futures.append(publisher.publish(f"{stream.name}.x", b""))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish()
    assert futures[0].result(0).sequence == 1


def test_after_close_nothing_is_taken(js: blocking.JetStream, stream: blocking.Stream) -> None:
    publisher = js.publisher()
    publisher.publish(f"{stream.name}.x", b"")
    publisher.close()
    publisher.close()
    with pytest.raises(ConnectionClosed):
        publisher.publish(f"{stream.name}.x", b"")


def test_a_future_cannot_be_cancelled_and_calls_back_in_a_thread_that_may_block(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    called: list[tuple[int, str]] = []

    def told(future: Future[PubAck]) -> None:
        js.account_info()
        called.append((future.result().sequence, threading.current_thread().name))

    with js.publisher() as publisher:
        future = publisher.publish(f"{stream.name}.x", b"")
        assert not future.cancel()
        future.add_done_callback(told)
        future.result(20)
        future.add_done_callback(told)
        wait_until(lambda: len(called) == 2, "both calls")
    assert set(called) == {(1, "jetspark-events")}


def test_many_threads_share_one_publisher(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with js.publisher(max_pending=64) as publisher:

        def publish() -> None:
            for _ in range(300):
                publisher.send(f"{stream.name}.x", b"")

        threads = [threading.Thread(target=publish) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert publisher.acked == 2400
    assert stream.info().state.messages == 2400


def test_what_waits_beyond_the_window_is_bounded(server: Server) -> None:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=["s"]))
        publisher = js.publisher(max_pending=10, max_buffered_bytes=10_000, timeout=3)
        server.stop()

        def publish() -> None:
            for _ in range(1000):
                publisher.publish("s", bytes(100))

        with pytest.raises(OutboundBufferFull):
            publish()
        assert 10 < publisher.pending < 200
        with pytest.raises(PublishError):
            publisher.flush()


def test_a_batch_is_stored_as_a_whole(js: blocking.JetStream, atomic: blocking.Stream) -> None:
    with js.atomic_batch() as batch:
        for number in range(5):
            batch.add(f"{atomic.name}.x", b"%d" % number)
        assert len(batch) == 5
        assert batch.ack is None
        assert atomic.info().state.messages == 0
    assert batch.ack is not None
    assert (batch.ack.sequence, batch.ack.batch_size) == (5, 5)
    again = js.atomic_batch()
    again.add(f"{atomic.name}.x", b"", headers={"k": "v"}, msg_id="a")
    assert again.commit().sequence == 6


def test_a_batch_of_which_the_body_raises_is_not_sent(
    js: blocking.JetStream, atomic: blocking.Stream
) -> None:
    def publish() -> None:
        with js.atomic_batch() as batch:
            batch.add(f"{atomic.name}.x", b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish()
    assert atomic.info().state.messages == 0


def test_a_stream_that_takes_no_batches_says_so(js: blocking.JetStream, stream: blocking.Stream) -> None:
    batch = js.atomic_batch()
    batch.add(f"{stream.name}.x", b"1")
    batch.add(f"{stream.name}.x", b"2")
    with pytest.raises(BatchPublishError):
        batch.commit()
