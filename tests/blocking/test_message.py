"""Messages of the blocking API: every acknowledgement, each seen by the server."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark import ConsumerConfig, NoResponders, NotJetStreamMessage, Timeout, UsageError, blocking
from tests.blocking.support import fill
from tests.support.waiting import wait_until


@pytest.fixture
def consumer(js: blocking.JetStream, stream: blocking.Stream) -> blocking.Consumer:
    """A consumer with ten messages in front of it."""
    fill(js, stream, 10)
    return stream.create_consumer(ConsumerConfig(name="c", ack_wait=60.0))


def taken(consumer: blocking.Consumer, **options: Any) -> blocking.JetStreamMsg:
    message = consumer.next(**options)
    assert message is not None
    return message


def test_a_message_shows_what_it_is(stream: blocking.Stream, consumer: blocking.Consumer) -> None:
    message = taken(consumer)
    assert message.subject == f"{stream.name}.x"
    assert message.data == b"0"
    assert message.headers["Nats-Msg-Id"]
    assert message.metadata.stream == stream.name
    assert message.metadata.sequence.stream == 1
    assert not message.settled
    assert "JetStreamMsg" in repr(message)


def test_ack_is_terminal(consumer: blocking.Consumer) -> None:
    message = taken(consumer)
    message.ack()
    assert message.settled
    message.nak()
    message.in_progress()
    message.ack_sync()
    assert message.ack_next() is None
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 1, "the acknowledgement")
    assert consumer.info().num_ack_pending == 0


def test_nak_brings_the_message_again(consumer: blocking.Consumer) -> None:
    taken(consumer).nak()
    deliveries = {message.data: message.metadata.num_delivered for message in consumer.fetch(10)}
    assert deliveries == {b"%d" % number: 1 for number in range(1, 10)} | {b"0": 2}


def test_nak_with_a_delay_brings_it_later(consumer: blocking.Consumer) -> None:
    taken(consumer).nak(delay=3)
    assert taken(consumer).data == b"1"
    rest = consumer.fetch(8, expires=5)
    assert b"0" not in [message.data for message in rest]
    assert taken(consumer, expires=20).data == b"0"


def test_term_ends_it(consumer: blocking.Consumer) -> None:
    taken(consumer).term("poison")
    wait_until(lambda: consumer.info().num_ack_pending == 0, "the end of the message")


def test_in_progress_is_not_terminal(consumer: blocking.Consumer) -> None:
    message = taken(consumer)
    message.in_progress()
    assert not message.settled
    message.ack_sync()
    assert message.settled


def test_ack_sync_waits_for_the_server(consumer: blocking.Consumer) -> None:
    taken(consumer).ack_sync(timeout=5)
    assert consumer.info().num_ack_pending == 0


def test_ack_sync_says_when_the_consumer_is_gone(consumer: blocking.Consumer) -> None:
    message = taken(consumer)
    consumer.delete()
    with pytest.raises((NoResponders, Timeout)):
        message.ack_sync(timeout=0.5)
    assert not message.settled


def test_ack_next_pulls_the_next_message(consumer: blocking.Consumer) -> None:
    message = taken(consumer).ack_next(expires=5)
    assert message is not None
    assert message.data == b"1"
    message.ack_sync()
    assert consumer.info().ack_floor.stream_seq == 2


def test_ack_next_is_none_when_nothing_comes(consumer: blocking.Consumer) -> None:
    batch = consumer.fetch(10)
    assert batch[-1].ack_next(expires=0.1) is None
    assert batch[-1].settled


def test_a_batch_is_acknowledged_with_one_write(consumer: blocking.Consumer) -> None:
    batch = consumer.fetch(10)
    assert batch.error is None
    batch[0].ack()
    batch.ack()
    batch.ack()
    assert all(message.settled for message in batch)
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 10, "all acknowledged")


def test_many_messages_are_acknowledged_with_one_write(consumer: blocking.Consumer) -> None:
    messages = [*consumer.fetch(4), *consumer.fetch(4)]
    blocking.ack_all(messages)
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 8, "all acknowledged")


def test_on_a_consumer_without_acknowledgements_all_are_ignored(
    js: blocking.JetStream, stream: blocking.Stream
) -> None:
    fill(js, stream, 2)
    consumer = stream.create_consumer(ConsumerConfig(name="n", ack_policy="none"))
    sent = js.connection.statistics.out_bytes
    for message in consumer.fetch(2):
        assert message.settled
        message.ack()
        message.nak()
        message.term()
        message.in_progress()
    assert js.connection.statistics.out_bytes - sent < 1000


def test_wrong_arguments_are_refused(consumer: blocking.Consumer) -> None:
    message = taken(consumer)
    with pytest.raises(UsageError, match="delay"):
        message.nak(delay=-1)
    with pytest.raises(UsageError, match="reason"):
        message.term("two\nlines")
    assert not message.settled


def test_a_message_without_a_consumer_cannot_be_acknowledged(nc: blocking.Connection, subject: str) -> None:
    subscription = nc.subscribe(f"{subject}.>")
    for reply in ("", f"{subject}.elsewhere"):
        nc.publish(f"{subject}.x", b"", reply=reply)
        plain = subscription.next()
        message = blocking.JetStreamMsg(plain._frame, plain._bridge, False)
        for acknowledge in (message.ack, message.nak, message.ack_sync, message.respond):
            with pytest.raises(NotJetStreamMessage):
                acknowledge()
        with pytest.raises(NotJetStreamMessage):
            blocking.ack_all([message])
    nc.flush()
    assert subscription.pending_msgs == 0
