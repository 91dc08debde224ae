"""The server ends and restarts during blocking calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from jetspark import ConsumerConfig, NoResponders, StreamConfig, blocking
from jetspark.server import Server
from tests.blocking.support import fill
from tests.support.waiting import wait_until


@pytest.fixture
def nc(server: Server) -> Iterator[blocking.Connection]:
    with blocking.connect(server.url) as connection:
        yield connection


@pytest.fixture
def stream(js: blocking.JetStream) -> blocking.Stream:
    return js.create_stream(StreamConfig(name="S", subjects=["S.>"]))


@pytest.fixture
def consumer(stream: blocking.Stream) -> blocking.Consumer:
    return stream.create_consumer(ConsumerConfig(durable_name="c", ack_wait=2.0))


def kill_and_publish(server: Server, js: blocking.JetStream, subject: str, data: bytes) -> threading.Thread:
    def work() -> None:
        server.kill()
        server.start()
        js.publish(subject, data, msg_id="after")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_fetch_survives_a_kill_of_the_server(
    server: Server, js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    restarting = kill_and_publish(server, js, "S.x", b"after")
    batch: list[blocking.JetStreamMsg] = []
    while not batch:
        with suppress(NoResponders):  # The server is back, and the consumer not yet.
            batch = consumer.fetch(1, expires=30)
    assert [message.data for message in batch] == [b"after"]
    restarting.join(30)


def test_a_loop_over_messages_survives_a_kill_of_the_server(
    server: Server, js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    fill(js, stream, 10)
    seen: set[bytes] = set()
    with consumer.messages() as messages:
        while len(seen) < 10:
            message = next(messages)
            message.ack_sync()
            seen.add(message.data)
        restarting = kill_and_publish(server, js, "S.x", b"after")
        # A killed server may have lost acknowledgements: then it redelivers other messages first.
        while next(messages).data != b"after":
            pass
        restarting.join(30)


def test_a_consume_survives_a_kill_of_the_server(
    server: Server, js: blocking.JetStream, stream: blocking.Stream, consumer: blocking.Consumer
) -> None:
    done = threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        message.ack()
        if message.data == b"after":
            done.set()

    with consumer.consume(handle, concurrency=2):
        kill_and_publish(server, js, "S.x", b"after").join(30)
        assert done.wait(30)


def test_a_publisher_loses_nothing_over_a_restart(
    server: Server, js: blocking.JetStream, stream: blocking.Stream
) -> None:
    with js.publisher(max_pending=200) as publisher:
        for number in range(3000):
            if number == 1000:
                server.restart()
            publisher.send("S.x", b"%d" % number)
    assert publisher.failed == 0
    reader = js.ordered_consumer("S")
    assert [message.data for message in reader.fetch(3000, expires=30)] == [b"%d" % n for n in range(3000)]


def test_a_subscription_goes_on_after_a_restart(
    server: Server, nc: blocking.Connection, subject: str
) -> None:
    subscription = nc.subscribe(subject)
    server.restart()
    wait_until(lambda: nc.statistics.reconnects == 1, "the reconnect")
    nc.publish(subject, b"after")
    assert subscription.next().data == b"after"
