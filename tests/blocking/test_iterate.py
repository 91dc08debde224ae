"""`messages()` as a plain iterator, `consume()` with its handler in threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from jetspark import ConnectionClosed, ConsumerConfig, ConsumerDeleted, UsageError, blocking
from jetspark.server import Server
from tests.blocking.support import delete_when_pulled, fill
from tests.support.waiting import wait_until


@pytest.fixture
def consumer(stream: blocking.Stream) -> blocking.Consumer:
    return stream.create_consumer(ConsumerConfig(name="c", ack_wait=60.0, max_ack_pending=10_000))


class Handler:
    """Collects and acknowledges messages, and signals when there are enough."""

    def __init__(self, enough: int) -> None:
        self.seen: list[bytes] = []
        self.threads: set[str] = set()
        self.done = threading.Event()
        self._enough = enough

    def __call__(self, message: blocking.JetStreamMsg) -> None:
        message.ack()
        self.threads.add(threading.current_thread().name)
        self.seen.append(message.data)
        if len(self.seen) == self._enough:
            self.done.set()


# --- messages


def test_messages_is_a_plain_iterator(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 2000)
    seen = []
    with consumer.messages(max_messages=100) as messages:
        for message in messages:
            message.ack()
            seen.append(message.data)
            if len(seen) == 2000:
                break
    assert seen == payloads
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 2000, "all acknowledged")


def test_messages_can_be_read_in_batches(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 2000)
    seen: list[bytes] = []
    with consumer.messages(max_messages=100) as messages:
        for batch in messages.batches():
            batch.ack()
            seen += [message.data for message in batch]
            if len(seen) == 2000:
                break
    assert seen == payloads
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 2000, "all acknowledged")


@pytest.mark.parametrize("options", [{"max_messages": 1}, {"max_messages": 2}, {"max_bytes": 2000}])
def test_messages_works_with_the_smallest_buffers(
    js: blocking.JetStream,
    stream: blocking.Stream,
    consumer: blocking.Consumer,
    options: dict[str, Any],
) -> None:
    payloads = fill(js, stream, 50)
    with consumer.messages(**options) as messages:
        seen = []
        for message in messages:
            message.ack()
            seen.append(message.data)
            if len(seen) == 50:
                break
    assert seen == payloads


def test_what_the_loop_did_not_reach_goes_back_to_the_server(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 400)
    with consumer.messages(max_messages=200) as messages:
        for message in messages:
            message.ack_sync()
            if message.data == payloads[9]:
                break
    again = consumer.fetch(390, expires=10)
    assert sorted(message.data for message in again) == sorted(payloads[10:])


def test_a_loop_without_context_gives_back_what_it_did_not_reach(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 400)
    for message in consumer.messages(max_messages=200):
        message.ack_sync()
        if message.data == payloads[9]:
            break
    gc.collect()
    again = consumer.fetch(390, expires=10)
    assert sorted(message.data for message in again) == sorted(payloads[10:])


def test_next_of_messages_returns_none_when_nothing_comes(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    with consumer.messages() as messages:
        assert messages.next(timeout=0.05) is None
        js.publish(f"{stream.name}.x", b"1")
        message = messages.next(timeout=10)
        assert message is not None
        message.ack()
    assert messages.next() is None


def test_stop_ends_the_loop_of_another_thread(consumer: blocking.Consumer) -> None:
    messages = consumer.messages()
    ended = threading.Event()

    def read() -> None:
        for _ in messages:
            pass
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    messages.stop()
    thread.join(20)
    assert ended.is_set()


def test_drain_hands_out_what_is_buffered(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 100)
    with consumer.messages(max_messages=50) as messages:
        first = messages.next()
        assert first is not None
        messages.drain()
        rest = list(messages)
    assert [message.data for message in (first, *rest)] == [b"%d" % number for number in range(len(rest) + 1)]
    assert len(rest) >= 49


def test_several_threads_share_one_iterator(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 3000)
    seen: list[bytes] = []
    with consumer.messages(max_messages=200) as messages:

        def read() -> None:
            while (message := messages.next(timeout=20)) is not None:
                message.ack()
                seen.append(message.data)
                if len(seen) >= 3000:
                    messages.stop()

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(seen) == sorted(payloads)


def test_messages_raises_what_ends_it(consumer: blocking.Consumer) -> None:
    with consumer.messages() as messages:
        delete_when_pulled(consumer)
        with pytest.raises(ConsumerDeleted):
            next(messages)


def test_options_are_checked_at_the_call(consumer: blocking.Consumer) -> None:
    with pytest.raises(UsageError):
        consumer.messages(expires=0.5)
    with pytest.raises(UsageError):
        consumer.consume(lambda _: None, concurrency=0)

    async def handler(_: object) -> None: ...

    with pytest.raises(UsageError, match="handler must be a plain function"):
        consumer.consume(handler)


def test_no_more_is_pending_than_the_buffer_holds(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 500)
    with consumer.messages(max_messages=20) as messages:
        for _ in range(40):
            next(messages).ack_sync()
            # Buffered, and the one that is read.
            assert consumer.info().num_ack_pending <= 20


# --- consume


def test_consume_calls_the_handler_in_a_thread_in_order(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 3000)
    handler = Handler(3000)
    running = consumer.consume(handler, max_messages=100)
    assert running.active
    assert handler.done.wait(30)
    running.stop()
    assert not running.active
    assert handler.seen == payloads
    assert handler.threads == {"jetspark-consume-1"}
    running.wait_closed()


def test_handlers_run_at_once_in_as_many_threads(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 40)
    together = threading.Barrier(4)
    done = threading.Event()
    count = 0
    lock = threading.Lock()

    def handle(message: blocking.JetStreamMsg) -> None:
        nonlocal count
        together.wait(20)
        message.ack()
        with lock:
            count += 1
            if count == 40:
                done.set()

    with consumer.consume(handle, concurrency=4):
        assert done.wait(30)


def test_a_slow_handler_holds_up_only_its_own_thread(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    payloads = fill(js, stream, 100)
    go_on = threading.Event()
    others = Handler(99)

    def handle(message: blocking.JetStreamMsg) -> None:
        if message.data == payloads[0]:
            go_on.wait(30)
            message.ack()
        else:
            others(message)

    with consumer.consume(handle, concurrency=2):
        assert others.done.wait(30)
        go_on.set()
    assert others.seen == payloads[1:]


def test_a_handler_may_make_blocking_calls(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 10)
    sequences: list[int] = []
    done = threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        sequences.append(js.publish(f"{stream.name}.y", message.data).sequence)
        message.ack_sync()
        if len(sequences) == 10:
            done.set()

    with consumer.consume(handle, max_messages=10):
        assert done.wait(30)
    # The handler publishes to the same stream, and may receive those messages before it is stopped.
    assert sequences[:10] == list(range(11, 21))


def test_a_handler_that_raises_is_reported_and_the_message_comes_again(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 5)
    errors: list[Exception] = []
    threads: set[str] = set()
    deliveries: list[tuple[bytes, int]] = []
    done = threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        deliveries.append((message.data, message.metadata.num_delivered))
        if deliveries[-1] == (b"2", 1):
            raise ValueError("bad")
        message.ack()
        if deliveries[-1] == (b"2", 2):
            done.set()

    def on_error(error: Exception) -> None:
        js.account_info()  # may block too
        errors.append(error)
        threads.add(threading.current_thread().name)

    with consumer.consume(handle, on_error=on_error):
        assert done.wait(30)
        wait_until(lambda: bool(errors), "the report")
    assert [str(error) for error in errors] == ["bad"]
    assert threads == {"jetspark-events"}
    assert (b"3", 1) in deliveries


def test_a_handler_may_end_its_own_consume(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 50)
    seen: list[bytes] = []
    ready = threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        ready.wait(20)
        seen.append(message.data)
        with pytest.raises(UsageError):
            running.wait_closed()
        running.stop()
        message.ack_sync()

    running = consumer.consume(handle)
    ready.set()
    running.wait_closed()
    assert seen == [b"0"]
    assert len(consumer.fetch(49, expires=10)) == 49


def test_drain_handles_what_is_buffered(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 1000)
    begun, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def handle(message: blocking.JetStreamMsg) -> None:
        begun.set()
        go_on.wait(30)
        message.ack()
        seen.append(message.data)

    running = consumer.consume(handle, max_messages=100)
    assert begun.wait(20)
    threading.Timer(0.2, go_on.set).start()
    running.drain()
    assert not running.active
    assert seen == [b"%d" % number for number in range(len(seen))]
    wait_until(lambda: consumer.info().num_ack_pending == 0, "all acknowledged")


def test_stop_waits_for_the_handler_and_gives_back_the_rest(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 100)
    begun, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def handle(message: blocking.JetStreamMsg) -> None:
        begun.set()
        go_on.wait(30)
        message.ack_sync()
        seen.append(message.data)

    running = consumer.consume(handle)
    assert begun.wait(20)
    threading.Timer(0.2, go_on.set).start()
    running.stop()
    assert seen == [b"0"]
    assert len(consumer.fetch(99, expires=10)) == 99


def test_a_slow_handler_keeps_the_buffer_bounded(
    js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 200)
    go_on = threading.Semaphore(0)
    begun = threading.Semaphore(0)

    def handle(message: blocking.JetStreamMsg) -> None:
        begun.release()
        go_on.acquire(timeout=30)
        message.ack_sync()

    with consumer.consume(handle, max_messages=10) as running:
        for _ in range(30):
            assert begun.acquire(timeout=30)
            assert consumer.info().num_ack_pending <= 11
            go_on.release()
        go_on.release(200)
        running.stop()


def test_wait_closed_raises_what_ended_it(consumer: blocking.Consumer) -> None:
    running = consumer.consume(lambda message: message.ack())
    delete_when_pulled(consumer)
    with pytest.raises(ConsumerDeleted):
        running.wait_closed()
    assert not running.active


def test_closing_the_connection_ends_consumes_and_loops(
    shared_server: Server, js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 1000)
    begun = threading.Event()
    with blocking.connect(shared_server.url) as nc:
        other = nc.jetstream().get_consumer(stream.name, "c")

        def handle(message: blocking.JetStreamMsg) -> None:
            begun.set()
            message.ack()

        running = other.consume(handle, concurrency=3)
        messages = other.messages()
        outcome: list[object] = []

        def read() -> None:
            try:
                for message in messages:
                    message.ack()
            except ConnectionClosed:
                pass
            outcome.append("ended")

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(20)
    reader.join(20)
    assert outcome[-1] == "ended"
    wait_until(lambda: not running.active, "the end of the consume")
