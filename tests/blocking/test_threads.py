"""One connection used by many threads: the writer and its back-pressure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from jetspark import ConnectionClosed, ConsumerConfig, OutboundBufferFull, Timeout, UsageError, blocking
from jetspark.blocking.threads.portal import Portal
from jetspark.server import Server
from tests.support.waiting import wait_until


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run a function in several threads at once; raises the first error."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def test_eight_threads_publish_and_the_order_of_each_is_kept(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(f"{subject}.>")

    def publish(number: int) -> None:
        for index in range(1000):
            nc.publish(f"{subject}.{number}", b"%d" % index)

    in_threads(8, publish)
    received: dict[str, list[int]] = {}
    for _ in range(8000):
        message = subscription.next()
        received.setdefault(message.subject, []).append(int(message.data))
    assert set(received) == {f"{subject}.{number}" for number in range(8)}
    assert all(indexes == list(range(1000)) for indexes in received.values())


def test_eight_threads_publish_and_fetch_every_message_once(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    consumer = stream.create_consumer(ConsumerConfig(name="c"))
    seen: list[bytes] = []

    def work(number: int) -> None:
        for index in range(50):
            js.publish(f"{stream.name}.x", b"%d-%d" % (number, index))
        while len(seen) < 400:
            for message in consumer.fetch(10, expires=1):
                message.ack_sync()
                seen.append(message.data)

    in_threads(8, work)
    assert sorted(seen) == sorted(b"%d-%d" % (number, index) for number in range(8) for index in range(50))


def test_eight_threads_make_requests(nc: blocking.Connection, subject: str) -> None:
    nc.subscribe(subject, callback=lambda message: message.respond(message.data[::-1]))

    def ask(number: int) -> None:
        for index in range(50):
            payload = b"%d-%d" % (number, index)
            assert nc.request(subject, payload).data == payload[::-1]

    in_threads(8, ask)


def test_eight_threads_connect_at_once(shared_server: Server) -> None:
    def connect(_: int) -> None:
        for _ in range(5):
            with blocking.connect(shared_server.url) as nc:
                nc.flush()

    in_threads(8, connect)


def waiting_bytes(nc: blocking.Connection) -> int:
    return nc._inner.session.outbox.size + nc._bridge.writer._size


def test_a_thread_that_publishes_faster_than_the_network_waits_and_memory_stays_bounded(
    server: Server, subject: str
) -> None:
    block = bytes(100_000)
    sent: list[int] = []
    with blocking.connect(server.url) as nc, blocking.connect(server.url) as other:
        subscription = other.subscribe(subject)
        other.flush()
        server.pause()

        def publish() -> None:
            for number in range(300):
                nc.publish(subject, b"%d " % number + block)
                sent.append(number)

        thread = threading.Thread(target=publish)
        thread.start()
        wait_until(lambda: waiting_bytes(nc) >= 1024 * 1024, "a queue that fills")
        before = -1
        while len(sent) != before:  # until nothing has moved for a while
            before = len(sent)
            thread.join(0.3)
        assert 0 < len(sent) < 300
        assert waiting_bytes(nc) < 4 * 1024 * 1024
        server.resume()
        thread.join(30)
        nc.flush(30)
        assert [int(subscription.next().data.split()[0]) for _ in range(300)] == list(range(300))


def test_a_thread_that_waits_for_the_network_too_long_gets_timeout(server: Server, subject: str) -> None:
    with blocking.connect(server.url, drain_timeout=0.2) as nc:
        server.pause()

        def publish() -> None:
            for _ in range(1000):
                nc.publish(subject, bytes(100_000))

        with pytest.raises(Timeout, match="are still queued"):
            publish()
        server.resume()


def test_flush_waits_for_what_threads_have_queued(server: Server, subject: str) -> None:
    with blocking.connect(server.url) as nc, blocking.connect(server.url) as other:
        subscription = other.subscribe(subject)
        other.flush()
        for _ in range(20):
            nc.publish(subject, bytes(900_000))
        nc.flush(30)
        other.flush(30)
        assert subscription.received == 20


def test_what_is_published_while_the_connection_is_down_is_sent_in_order(
    server: Server, subject: str
) -> None:
    down, up = threading.Event(), threading.Event()
    with blocking.connect(server.url, on_disconnected=lambda _: down.set(), on_reconnected=up.set) as nc:
        subscription = nc.subscribe(subject)
        server.stop()
        assert down.wait(20)
        for number in range(100):
            nc.publish(subject, b"%d" % number)
        server.start()
        assert up.wait(20)
        assert [subscription.next().data for _ in range(100)] == [b"%d" % number for number in range(100)]


def test_a_message_that_can_never_be_queued_is_refused(shared_server: Server) -> None:
    with blocking.connect(shared_server.url, pending_size=1000) as nc:
        for _ in range(100):
            nc.publish("a", bytes(500))
        with pytest.raises(OutboundBufferFull):
            nc.publish("a", bytes(1001))
        nc.flush()


def test_closing_wakes_a_thread_that_waits_for_the_network(server: Server, subject: str) -> None:
    outcome: list[BaseException] = []
    nc = blocking.connect(server.url)
    server.pause()

    def publish() -> None:
        try:
            while True:
                nc.publish(subject, bytes(100_000))
        except ConnectionClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=publish)
    thread.start()
    wait_until(lambda: waiting_bytes(nc) >= 2 * 1024 * 1024, "a queue that is full")
    nc.close()
    thread.join(20)
    server.resume()
    assert len(outcome) == 1


def test_a_blocking_call_in_the_loop_is_refused(nc: blocking.Connection) -> None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            nc.flush()
        except UsageError as error:
            raised.append(error)

    nc._bridge.portal.call(call)
    assert "in the event loop" in str(raised[0])


def test_a_call_that_waits_when_the_loop_ends_raises(shared_server: Server, subject: str) -> None:
    portal = Portal.acquire()
    raised: list[BaseException] = []
    begun = threading.Event()

    async def wait_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            portal.run(wait_for_ever())
        except ConnectionClosed as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(20)
    portal.release()
    thread.join(20)
    assert len(raised) == 1
    portal.post(print)  # ignored
