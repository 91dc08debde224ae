"""Management through the blocking API: streams, stored messages, consumers, the account."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

import pytest

from jetspark import (
    ConsumerConfig,
    ConsumerNotFound,
    MessageNotFound,
    StreamConfig,
    StreamNotFound,
    UsageError,
    blocking,
)
from tests.blocking.support import fill
from tests.support.waiting import wait_until


def test_a_stream_is_created_updated_and_deleted(js: blocking.JetStream) -> None:
    name = f"T{secrets.token_hex(6)}"
    config = StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory")
    stream = js.create_stream(config)
    assert (stream.name, stream.config.subjects) == (name, [f"{name}.>"])
    assert repr(stream) == f"<Stream {name}>"
    assert js.get_stream(name).cached_info.config.name == name
    assert js.update_stream(stream.config.replace(max_msgs=5)).config.max_msgs == 5
    assert js.create_or_update_stream(stream.config.replace(max_msgs=7)).config.max_msgs == 7
    assert stream.info().config.max_msgs == 7
    assert stream.update(stream.config.replace(description="d")).config.description == "d"
    assert stream.seal().config.sealed
    js.delete_stream(name)
    with pytest.raises(StreamNotFound):
        js.get_stream(name)


def test_lists_are_plain_iterators(js: blocking.JetStream, stream: blocking.Stream) -> None:
    assert stream.name in [info.config.name for info in js.streams()]
    assert list(js.stream_names(f"{stream.name}.a")) == [stream.name]
    for name in ("a", "b"):
        stream.create_consumer(ConsumerConfig(name=name))
    assert sorted(stream.consumer_names()) == ["a", "b"]
    assert sorted(info.name for info in stream.consumers()) == ["a", "b"]
    assert sorted(js.consumer_names(stream.name)) == ["a", "b"]
    assert len(list(js.consumers(stream.name))) == 2


def test_a_list_may_be_left_early(js: blocking.JetStream, stream: blocking.Stream) -> None:
    for _ in js.streams():
        break
    fill(js, stream, 2000)
    for message in stream.get_messages():
        if message.sequence == 3:
            break
    assert js.account_info().streams >= 1


def test_a_list_raises_what_goes_wrong(js: blocking.JetStream) -> None:
    with pytest.raises(StreamNotFound):
        list(js.consumers("NO_SUCH_STREAM"))
    with pytest.raises(UsageError):
        list(js.streams("a..b"))


def test_stored_messages_are_read_and_deleted(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 1500)
    subject = f"{stream.name}.x"
    assert stream.get_message(3).data == b"2"
    assert stream.get_last_message(subject).sequence == 1500
    assert stream.get_next_message(subject, sequence=7).sequence == 7
    assert [message.sequence for message in stream.get_messages()] == list(range(1, 1501))
    assert [message.sequence for message in stream.get_messages(5, batch=2)] == [5, 6]
    assert [message.sequence for message in stream.get_last_messages([subject])] == [1500]
    stream.delete_message(1)
    stream.secure_delete_message(2)
    with pytest.raises(MessageNotFound):
        stream.get_message(1)
    assert stream.purge(keep=10) == 1488


def test_publish_returns_the_acknowledgement(js: blocking.JetStream, stream: blocking.Stream) -> None:
    subject = f"{stream.name}.x"
    first = js.publish(subject, b"1", msg_id="a", headers={"k": "v"})
    again = js.publish(subject, b"1", msg_id="a", expected_stream=stream.name)
    assert (first.stream, first.sequence, first.duplicate) == (stream.name, 1, False)
    assert (again.sequence, again.duplicate) == (1, True)


def test_a_consumer_is_created_updated_and_deleted(js: blocking.JetStream, stream: blocking.Stream) -> None:
    config = ConsumerConfig(name="c", description="1")
    consumer = js.create_consumer(stream.name, config)
    assert (consumer.name, consumer.stream_name, consumer.config.description) == ("c", stream.name, "1")
    assert repr(consumer) == f"<Consumer {stream.name} > c>"
    assert js.update_consumer(stream.name, config.replace(description="2")).config.description == "2"
    assert stream.update_consumer(config.replace(description="3")).config.description == "3"
    assert js.create_or_update_consumer(stream.name, config).config.description == "1"
    assert stream.create_or_update_consumer(config).cached_info.config.description == "1"
    assert stream.get_consumer("c").info().name == "c"
    assert js.get_consumer(stream.name, "c").name == "c"
    assert js.consumer_info(stream.name, "c").name == "c"
    js.delete_consumer(stream.name, "c")
    with pytest.raises(ConsumerNotFound):
        consumer.info()
    stream.create_consumer(config)
    stream.delete_consumer("c")
    stream.create_consumer(config).delete()
    assert list(stream.consumers()) == []


def test_a_consumer_pauses_resumes_and_is_reset(js: blocking.JetStream, stream: blocking.Stream) -> None:
    fill(js, stream, 3)
    consumer = stream.create_consumer(ConsumerConfig(name="c"))
    consumer.pause(datetime.now(UTC) + timedelta(hours=1))
    assert consumer.info().paused
    assert consumer.fetch_no_wait(3) == []
    consumer.resume()
    assert not consumer.info().paused
    assert js.pause_consumer(stream.name, "c", 60.0).paused
    assert not js.resume_consumer(stream.name, "c").paused
    consumer.fetch(3).ack()
    wait_until(lambda: consumer.info().num_ack_pending == 0, "all acknowledged")
    consumer.reset(1)
    assert [message.data for message in consumer.fetch(3)] == [b"0", b"1", b"2"]
    js.reset_consumer(stream.name, "c", 2)
    assert [message.data for message in consumer.fetch(2)] == [b"1", b"2"]


def test_a_context_knows_where_it_belongs(nc: blocking.Connection) -> None:
    js = nc.jetstream(domain="hub", timeout=2.0)
    assert js.connection is nc
    assert js.timeout == 2.0
    assert "$JS.hub.API" in repr(js)
    with pytest.raises(UsageError):
        nc.jetstream(domain="hub", api_prefix="other")
