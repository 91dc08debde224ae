"""js.subscribe and js.pull_subscribe of the blocking API."""

from __future__ import annotations

import threading

import pytest

from jetspark import (
    ConsumerConfig,
    ConsumerNotFound,
    DuplicateSubscription,
    MissedHeartbeat,
    NoMatchingStream,
    SubscriptionClosed,
    Timeout,
    UsageError,
    blocking,
)
from tests.blocking.support import fill
from tests.support.untyped import untyped
from tests.support.waiting import wait_until

LONG = 30.0


def names(js: blocking.JetStream, stream: blocking.Stream) -> list[str]:
    return list(js.consumer_names(stream.name))


def test_messages_are_read_one_by_one_and_iterated(js: blocking.JetStream, stream: blocking.Stream) -> None:
    payloads = fill(js, stream, 10)
    with js.subscribe(f"{stream.name}.>") as subscription:
        assert subscription.stream_name == stream.name
        first = subscription.next(LONG)
        assert isinstance(first, blocking.JetStreamMsg)
        assert first.data == payloads[0]
        got = [first]
        for message in subscription:
            message.ack()
            got.append(message)
            if message.metadata.num_pending == 0:
                break
        assert [message.data for message in got] == payloads
        got[0].ack_sync()
        assert subscription.consumer_info().num_ack_pending == 0
        with pytest.raises(Timeout):
            subscription.next(0.01)
    assert names(js, stream) == []
    with pytest.raises(SubscriptionClosed):
        subscription.next()


def test_a_callback_runs_in_a_thread_and_acknowledges(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    payloads = fill(js, stream, 50)
    got: list[tuple[bytes, str]] = []
    subscription = js.subscribe(
        f"{stream.name}.>",
        durable="D",
        callback=lambda message: got.append((message.data, threading.current_thread().name)),
    )
    wait_until(lambda: len(got) == 50, "all to arrive")
    assert [data for data, _ in got] == payloads
    assert {name for _, name in got} != {threading.current_thread().name}
    wait_until(lambda: subscription.consumer_info().num_ack_pending == 0, "all to be acknowledged")
    with pytest.raises(UsageError, match="callback"):
        subscription.next()
    subscription.drain()
    assert names(js, stream) == []


def test_with_manual_ack_a_callback_does_not(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 5)
    got: list[blocking.JetStreamMsg] = []
    with js.subscribe(f"{stream.name}.>", callback=got.append, manual_ack=True) as subscription:
        wait_until(lambda: len(got) == 5, "all to arrive")
        assert subscription.consumer_info().num_ack_pending == 5
        for message in got:
            message.ack()
        wait_until(lambda: subscription.consumer_info().num_ack_pending == 0, "all to be acknowledged")


def test_a_callback_that_raised_is_reported(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 2)
    errors: list[Exception] = []
    done: list[bytes] = []

    def handle(message: blocking.JetStreamMsg) -> None:
        if message.metadata.num_delivered == 1 and message.metadata.sequence.stream == 1:
            raise RuntimeError("not this time")
        done.append(message.data)

    config = ConsumerConfig(ack_wait=3)
    with js.subscribe(f"{stream.name}.>", callback=handle, config=config, on_error=errors.append):
        wait_until(lambda: sorted(done) == [b"0", b"1"], "both to be done")
    assert [str(error) for error in errors] == ["not this time"]


def test_members_of_a_queue_share_and_leave_their_consumer(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    got: list[bytes] = []
    members = [
        js.subscribe(f"{stream.name}.>", "workers", callback=lambda message: got.append(message.data))
        for _ in range(2)
    ]
    payloads = fill(js, stream, 100)
    wait_until(lambda: len(got) >= 100, "all to arrive")
    assert sorted(got) == sorted(payloads)
    for member in members:
        member.unsubscribe()
    assert names(js, stream) == ["workers"]


def test_an_ordered_subscription_reads_in_order(js: blocking.JetStream, stream: blocking.Stream) -> None:
    payloads = fill(js, stream, 3000)
    with js.subscribe(f"{stream.name}.>", ordered=True) as subscription:
        assert [subscription.next(LONG).data for _ in range(3000)] == payloads
    assert names(js, stream) == []


def test_flow_control_waits_for_the_thread(js: blocking.JetStream, stream: blocking.Stream) -> None:
    """Chunks end where the server asks, so the answer goes out when a thread has come that far."""
    with js.publisher() as publisher:
        for _ in range(4000):
            publisher.send(f"{stream.name}.x", b"x" * 1000)
    with js.subscribe(
        f"{stream.name}.>", flow_control=True, idle_heartbeat=0.2, config=ConsumerConfig(ack_policy="none")
    ) as subscription:
        first = subscription.next(LONG)
        wait_until(lambda: subscription.received > 900, "the window to be full")
        assert subscription.received < 4000
        got = [first, *(subscription.next(LONG) for _ in range(3999))]
    assert [message.metadata.sequence.stream for message in got] == list(range(1, 4001))


def test_what_is_read_after_a_drain_is_all_there_was(js: blocking.JetStream, stream: blocking.Stream) -> None:
    payloads = fill(js, stream, 20)
    subscription = js.subscribe(f"{stream.name}.>")
    wait_until(lambda: subscription.received == 20, "all to arrive")
    assert subscription.next(LONG).data == payloads[0]
    subscription.drain()
    assert names(js, stream) != []
    rest = []
    for message in subscription:
        message.ack()
        rest.append(message.data)
    assert rest == payloads[1:]
    assert names(js, stream) == []


def test_what_a_callback_did_not_get_goes_back(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 20)
    js.create_consumer(
        stream.name,
        ConsumerConfig(
            durable_name="Q", deliver_subject=f"to.{stream.name}", deliver_group="Q", ack_wait=3600
        ),
    )
    began, let_go = threading.Event(), threading.Event()

    def handle(message: blocking.JetStreamMsg) -> None:
        began.set()
        let_go.wait(LONG)

    slow = js.subscribe(f"{stream.name}.>", "Q", callback=handle)
    assert began.wait(LONG)
    wait_until(lambda: slow.received == 20, "all to arrive")
    got: list[bytes] = []
    other = js.subscribe(f"{stream.name}.>", "Q", callback=lambda message: got.append(message.data))
    threading.Timer(0.1, let_go.set).start()
    slow.unsubscribe()
    wait_until(lambda: len(got) == 19, "the rest to arrive at the other")
    other.unsubscribe()


def test_errors_are_the_same(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with pytest.raises(NoMatchingStream):
        js.subscribe("nothing.at.all")
    with pytest.raises(ConsumerNotFound):
        js.subscribe(stream=stream.name, consumer="C")
    with pytest.raises(UsageError, match="neither subject nor stream"):
        js.subscribe()
    with js.subscribe(f"{stream.name}.>", durable="D"), pytest.raises(DuplicateSubscription):
        js.subscribe(f"{stream.name}.>", durable="D")

    async def handle(message: object) -> None:
        pass

    with pytest.raises(UsageError, match="plain function"):
        js.subscribe(f"{stream.name}.>", callback=handle)
    with pytest.raises(UsageError, match="callback must be a function"):
        js.subscribe(f"{stream.name}.>", callback=untyped("f"))
    assert names(js, stream) == []


def test_alarms_come_in_a_thread(js: blocking.JetStream, stream: blocking.Stream) -> None:
    alarms: list[Exception] = []
    with js.subscribe(f"{stream.name}.>", idle_heartbeat=30, alarm_after=0.1, on_error=alarms.append):
        wait_until(lambda: bool(alarms), "the alarm")
    assert isinstance(alarms[0], MissedHeartbeat)


# --- pulling


def test_fetching(js: blocking.JetStream, stream: blocking.Stream) -> None:
    payloads = fill(js, stream, 10)
    with js.pull_subscribe(f"{stream.name}.>", "D") as subscription:
        assert (subscription.stream_name, subscription.consumer_name) == (stream.name, "D")
        batch = subscription.fetch(4)
        assert [message.data for message in batch] == payloads[:4]
        batch.ack()
        assert subscription.fetch()[0].data == payloads[4]
        assert len(subscription.fetch(10, timeout=3)) == 5
        with pytest.raises(Timeout):
            subscription.fetch(10, timeout=0.1)
        assert subscription.pending_msgs == 0
        wait_until(lambda: subscription.consumer_info().num_ack_pending == 6, "four acknowledged")
    assert names(js, stream) == []
    assert not subscription.active
    with pytest.raises(SubscriptionClosed):
        subscription.fetch()


def test_fetching_in_several_threads(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 100)
    subscription = js.pull_subscribe(f"{stream.name}.>", "D")
    got: list[bytes] = []

    def work() -> None:
        for _ in range(25):
            got.extend(message.data for message in subscription.fetch(1, timeout=LONG))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, got)) == list(range(100))
    subscription.drain()
    assert names(js, stream) == []
