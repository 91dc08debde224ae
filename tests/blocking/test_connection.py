"""The blocking connection: connect, publish, request, listeners, drain, close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import jetspark
from jetspark import (
    ConnectionClosed,
    ConnectionDraining,
    Event,
    MaxPayloadError,
    NoResponders,
    State,
    Timeout,
    UsageError,
    blocking,
)
from jetspark.server import Server
from tests.support.untyped import untyped
from tests.support.waiting import wait_until


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jetspark-loop"]


def test_the_package_offers_it() -> None:
    assert jetspark.blocking is blocking


def test_connect_returns_a_connection_that_is_connected(server: Server) -> None:
    nc = blocking.connect(server.url)
    try:
        assert nc.connected
        assert nc.state is State.CONNECTED
        assert nc.connected_url == server.url
        assert nc.servers == [server.url]
        assert nc.server_info.jetstream
        assert nc.max_payload == 1024 * 1024
        assert nc.last_error is None
        assert not nc.draining
        assert "CONNECTED" in repr(nc).upper()
    finally:
        nc.close()
    assert nc.closed


def test_leaving_the_context_closes_and_leaves_no_thread(shared_server: Server) -> None:
    with blocking.connect(shared_server.url) as nc:
        assert len(loop_threads()) == 1
    assert nc.closed
    assert loop_threads() == []


def test_all_connections_share_one_loop(shared_server: Server) -> None:
    with blocking.connect(shared_server.url) as one, blocking.connect(shared_server.url) as other:
        assert len(loop_threads()) == 1
        one.close()
        other.flush()
        assert len(loop_threads()) == 1
    assert loop_threads() == []


def test_connections_can_be_made_again_after_the_last_was_closed(shared_server: Server) -> None:
    for _ in range(3):
        with blocking.connect(shared_server.url) as nc:
            assert nc.rtt() > 0


def test_a_connect_that_fails_leaves_nothing() -> None:
    with pytest.raises(jetspark.ConnectionError):
        blocking.connect("nats://127.0.0.1:1", max_reconnect_attempts=0)
    assert loop_threads() == []


def test_a_connect_may_wait_for_the_server_and_be_made_anew(server: Server, subject: str) -> None:
    server.kill()
    with blocking.connect(server.url, retry_on_failed_connect=True) as nc:
        nc.publish(subject, b"kept until the server is there")
        with pytest.raises(Timeout):
            nc.wait_connected(0.01)
        server.start()
        nc.wait_connected(60)
        nc.flush()
        assert nc.statistics.out_msgs == 1
        nc.servers = [server.url]
        nc.reconnect(60)
        assert (nc.servers, nc.statistics.reconnects) == ([server.url], 1)
        with pytest.raises(UsageError):
            nc.servers = "http://host"


def test_bad_options_are_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="connect_timeout"):
        blocking.connect(connect_timeout=0)
    with pytest.raises(UsageError, match="on_error must be a function"):
        blocking.connect(on_error=untyped("no function"))

    async def listener(_: object) -> None: ...

    with pytest.raises(UsageError, match="on_error must be a plain function"):
        blocking.connect(on_error=listener)
    assert loop_threads() == []


def test_what_is_published_arrives_in_order(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    for number in range(1000):
        nc.publish(subject, b"%d" % number, headers={"n": str(number)}, reply="answer.here")
    received = [subscription.next() for _ in range(1000)]
    assert [message.data for message in received] == [b"%d" % number for number in range(1000)]
    assert received[7].headers["n"] == "7"
    assert received[7].reply == "answer.here"
    assert received[7].subject == subject


def test_statistics_count_what_threads_publish(nc: blocking.Connection, subject: str) -> None:
    before = nc.statistics
    for _ in range(10):
        nc.publish(subject, b"x")
    nc.flush()
    assert nc.statistics.out_msgs - before.out_msgs == 10
    assert nc.statistics.out_bytes > before.out_bytes


def test_errors_of_usage_are_raised_where_the_call_is(nc: blocking.Connection) -> None:
    with pytest.raises(UsageError, match="subject"):
        nc.publish("with space", b"")
    with pytest.raises(UsageError, match="data must be bytes"):
        nc.publish("a", untyped("text"))
    with pytest.raises(MaxPayloadError):
        nc.publish("a", bytes(nc.max_payload + 1))
    with pytest.raises(UsageError):
        nc.subscribe("a..b")
    with pytest.raises(UsageError, match="callback must be a function"):
        nc.subscribe("a", callback=untyped("no function"))


def test_request_returns_the_answer(nc: blocking.Connection, subject: str) -> None:
    nc.subscribe(
        subject, callback=lambda message: message.respond(b"re: " + message.data, headers={"a": "b"})
    )
    answer = nc.request(subject, b"hello", headers={"x": "y"})
    assert (answer.data, answer.headers["a"]) == (b"re: hello", "b")


def test_request_raises_what_the_asynchronous_one_raises(nc: blocking.Connection, subject: str) -> None:
    with pytest.raises(NoResponders):
        nc.request(subject)
    nc.subscribe(subject)
    with pytest.raises(Timeout):
        nc.request(subject, timeout=0.05)


def test_inboxes_are_unique(nc: blocking.Connection) -> None:
    assert nc.new_inbox() != nc.new_inbox()


def test_listeners_run_in_a_thread_and_may_block(server: Server) -> None:
    seen: list[tuple[str, str]] = []
    back = threading.Event()

    def on_reconnected() -> None:
        nc.flush()  # would wait for itself in the thread of the loop
        seen.append(("reconnected", threading.current_thread().name))
        back.set()

    with blocking.connect(
        server.url,
        on_disconnected=lambda _: seen.append(("disconnected", threading.current_thread().name)),
        on_reconnected=on_reconnected,
        on_closed=lambda _: seen.append(("closed", threading.current_thread().name)),
    ) as nc:
        server.restart()
        assert back.wait(20)
    assert [event for event, _ in seen] == ["disconnected", "reconnected", "closed"]
    assert {name for _, name in seen} == {"jetspark-events"}


def test_listeners_can_come_and_go(nc: blocking.Connection, subject: str) -> None:
    errors: list[Exception] = []
    remove = nc.on(Event.ERROR, errors.append)

    def fail(message: blocking.Msg) -> None:
        raise ValueError(message.data)

    nc.subscribe(subject, callback=fail)
    nc.publish(subject, b"1")
    wait_until(lambda: bool(errors), "the first error")
    remove()
    nc.publish(subject, b"2")
    nc.flush()
    assert [str(error) for error in errors] == ["b'1'"]


def test_a_listener_that_fails_is_logged_and_others_go_on(
    shared_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    called = threading.Event()

    def fail(_: object) -> None:
        raise ValueError("listener")

    with blocking.connect(shared_server.url, on_closed=fail) as nc:
        nc.on(Event.CLOSED, lambda _: called.set())
    assert called.is_set()
    assert "a listener failed" in caplog.text


def test_everything_after_close_says_that_it_is_closed(shared_server: Server, subject: str) -> None:
    nc = blocking.connect(shared_server.url)
    subscription = nc.subscribe(subject)
    js = nc.jetstream()
    nc.close()
    nc.close()
    calls: list[Callable[[], object]] = [
        lambda: nc.publish(subject, b""),
        lambda: nc.request(subject),
        lambda: nc.subscribe(subject),
        nc.flush,
        nc.rtt,
        js.account_info,
        lambda: list(js.streams()),
        js.publisher,
    ]
    for call in calls:
        with pytest.raises(ConnectionClosed):
            call()
    with pytest.raises(ConnectionClosed):
        subscription.next(timeout=0.1)


def test_close_may_be_called_while_another_thread_waits(shared_server: Server, subject: str) -> None:
    nc = blocking.connect(shared_server.url)
    subscription = nc.subscribe(subject)
    outcome: list[object] = []

    def read() -> None:
        try:
            outcome.append(list(subscription))
        except ConnectionClosed as error:
            outcome.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    nc.close()
    reader.join(20)
    assert len(outcome) == 1


def test_several_threads_may_close(shared_server: Server) -> None:
    nc = blocking.connect(shared_server.url)
    threads = [threading.Thread(target=nc.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert nc.closed
    assert loop_threads() == []


def test_wait_closed_returns_when_another_thread_closes(shared_server: Server) -> None:
    with blocking.connect(shared_server.url) as nc:
        threading.Timer(0.05, nc.close).start()
        try:
            nc.wait_closed()
        except ConnectionClosed:
            pass
        assert nc.closed


def test_what_was_published_before_close_is_written(
    shared_server: Server, nc: blocking.Connection, subject: str
) -> None:
    subscription = nc.subscribe(subject)
    nc.flush()
    with blocking.connect(shared_server.url) as other:
        for _ in range(5000):
            other.publish(subject, bytes(100))
    for _ in range(5000):
        subscription.next()


def test_drain_lets_callbacks_finish_and_publish(
    shared_server: Server, nc: blocking.Connection, subject: str
) -> None:
    answers = nc.subscribe(f"{subject}.answer")
    begun = threading.Event()
    go_on = threading.Event()
    with blocking.connect(shared_server.url) as other:

        def slow(message: blocking.Msg) -> None:
            begun.set()
            go_on.wait(20)
            other.publish(f"{subject}.answer", message.data)

        other.subscribe(subject, callback=slow)
        other.flush()
        for number in range(10):
            nc.publish(subject, b"%d" % number)
        nc.flush()  # The server has all of them before the other connection unsubscribes.
        assert begun.wait(20)
        drainer = threading.Thread(target=other.drain)
        drainer.start()
        wait_until(lambda: other.draining, "draining")
        with pytest.raises(ConnectionDraining):
            other.subscribe(subject)
        go_on.set()
        drainer.join(20)
        assert other.closed
    assert [answers.next().data for _ in range(10)] == [b"%d" % number for number in range(10)]


async def test_it_works_inside_a_running_event_loop(shared_server: Server, subject: str) -> None:
    assert asyncio.get_running_loop().is_running()
    with blocking.connect(shared_server.url) as nc:
        nc.subscribe(subject, callback=lambda message: message.respond(b"yes"))
        assert nc.request(subject).data == b"yes"


def test_a_connection_that_gave_up_is_closed_and_can_still_be_left(server: Server) -> None:
    closed = threading.Event()
    with blocking.connect(server.url, max_reconnect_attempts=0, on_closed=lambda _: closed.set()) as nc:
        server.stop()
        assert closed.wait(20)
        with pytest.raises(ConnectionClosed):
            nc.publish("a", b"")
        with pytest.raises(ConnectionClosed):
            nc.flush()
