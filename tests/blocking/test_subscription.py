"""Subscriptions of the blocking API: read in threads, or by callbacks that may block."""

from __future__ import annotations

import threading

import pytest

from jetspark import SubscriptionClosed, Timeout, UsageError, blocking
from tests.support.waiting import wait_until


def callback_threads(subject: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"jetspark-subscription-{subject}"]


def test_next_waits_for_the_next_message(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    threading.Timer(0.05, lambda: nc.publish(subject, b"late")).start()
    assert subscription.next().data == b"late"


def test_next_raises_timeout(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    with pytest.raises(Timeout, match=r"within 0\.05 s"):
        subscription.next(timeout=0.05)
    with pytest.raises(Timeout):
        subscription.next(timeout=0)


def test_it_is_an_iterator(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject, max_msgs=3)
    for number in range(5):
        nc.publish(subject, b"%d" % number)
    assert [message.data for message in subscription] == [b"0", b"1", b"2"]
    assert not subscription.active
    with pytest.raises(SubscriptionClosed):
        subscription.next()


def test_counts_include_what_was_taken_out_of_the_loop(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject, queue="q")
    assert (subscription.subject, subscription.queue, subscription.active) == (subject, "q", True)
    for _ in range(10):
        nc.publish(subject, b"12345")
    nc.flush()
    size = len(subject) + 5
    assert (subscription.pending_msgs, subscription.pending_bytes) == (10, 10 * size)
    subscription.next()
    assert (subscription.pending_msgs, subscription.pending_bytes) == (9, 9 * size)
    assert (subscription.received, subscription.dropped) == (10, 0)


def test_what_is_buffered_can_be_read_after_unsubscribe(nc: blocking.Connection, subject: str) -> None:
    with nc.subscribe(subject) as subscription:
        nc.publish(subject, b"1")
        nc.publish(subject, b"2")
        nc.flush()
        assert subscription.next().data == b"1"
    nc.publish(subject, b"3")
    nc.flush()
    assert [message.data for message in subscription] == [b"2"]


def test_drain_ends_the_iterator_after_what_is_under_way(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    for _ in range(100):
        nc.publish(subject, b"")
    subscription.drain()
    assert len(list(subscription)) == 100


def test_several_threads_share_one_subscription(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    seen: list[bytes] = []

    def read() -> None:
        seen.extend(message.data for message in subscription)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(5000):
        nc.publish(subject, b"%d" % number)
    subscription.drain()
    for thread in threads:
        thread.join(20)
    assert sorted(map(int, seen)) == list(range(5000))


def test_a_callback_gets_messages_in_order_in_a_thread_of_its_own(
    nc: blocking.Connection, subject: str
) -> None:
    seen: list[bytes] = []
    threads: set[str] = set()

    def take(message: blocking.Msg) -> None:
        seen.append(message.data)
        threads.add(threading.current_thread().name)

    subscription = nc.subscribe(subject, callback=take)
    for number in range(3000):
        nc.publish(subject, b"%d" % number)
    subscription.drain()
    assert seen == [b"%d" % number for number in range(3000)]
    assert threads == {f"jetspark-subscription-{subject}"}


def test_a_callback_may_make_blocking_calls(nc: blocking.Connection, subject: str) -> None:
    nc.subscribe(f"{subject}.inner", callback=lambda message: message.respond(message.data.upper()))

    def ask_further(message: blocking.Msg) -> None:
        answer = nc.request(f"{subject}.inner", message.data)
        nc.flush()
        message.respond(answer.data + b"!")

    nc.subscribe(f"{subject}.outer", callback=ask_further)
    assert nc.request(f"{subject}.outer", b"hello").data == b"HELLO!"


def test_a_callback_that_raises_is_reported_and_goes_on(
    nc: blocking.Connection, subject: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    def take(message: blocking.Msg) -> None:
        seen.append(message.data)
        if message.data == b"1":
            raise ValueError("bad message")

    with nc.subscribe(subject, callback=take) as subscription:
        nc.publish(subject, b"1")
        nc.publish(subject, b"2")
        wait_until(lambda: len(seen) == 2, "both messages")
    assert not subscription.active
    wait_until(lambda: "bad message" in caplog.text, "the report")


def test_a_callback_may_unsubscribe_itself(nc: blocking.Connection, subject: str) -> None:
    seen: list[bytes] = []
    done = threading.Event()

    def take(message: blocking.Msg) -> None:
        seen.append(message.data)
        subscription.unsubscribe()
        done.set()

    subscription = nc.subscribe(subject, callback=take)
    for _ in range(5):
        nc.publish(subject, b"x")
    assert done.wait(20)
    nc.flush()
    wait_until(lambda: not callback_threads(subject), "the end of the callback's thread")
    assert seen == [b"x"]


def test_a_callback_may_close_the_connection(nc: blocking.Connection, subject: str) -> None:
    done = threading.Event()

    def take(message: blocking.Msg) -> None:
        nc.close()
        done.set()

    nc.subscribe(subject, callback=take)
    nc.publish(subject, b"")
    assert done.wait(20)
    assert nc.closed


def test_a_callback_may_drain_the_connection(nc: blocking.Connection, subject: str) -> None:
    done = threading.Event()

    def take(message: blocking.Msg) -> None:
        nc.drain()
        done.set()

    nc.subscribe(subject, callback=take)
    nc.publish(subject, b"")
    assert done.wait(20)
    assert nc.closed


def test_unsubscribe_waits_for_the_callback_that_runs(nc: blocking.Connection, subject: str) -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def take(message: blocking.Msg) -> None:
        begun.set()
        go_on.wait(20)
        seen.append(message.data)

    subscription = nc.subscribe(subject, callback=take)
    nc.publish(subject, b"1")
    nc.publish(subject, b"2")
    assert begun.wait(20)
    threading.Timer(0.05, go_on.set).start()
    subscription.unsubscribe()
    assert seen == [b"1"]


def test_a_subscription_with_a_callback_cannot_be_read(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject, callback=lambda _: None)
    with pytest.raises(UsageError):
        subscription.next()
    with pytest.raises(UsageError):
        iter(subscription)


def test_a_message_without_reply_cannot_be_answered(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(subject)
    nc.publish(subject, b"1")
    with pytest.raises(UsageError, match="no reply"):
        subscription.next().respond(b"")
