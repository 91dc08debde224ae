"""Advisories and dead letters of the blocking API."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from jetspark import ConsumerConfig, StreamConfig, UsageError, blocking
from jetspark.server import Server
from tests.blocking.support import fill


def test_advisories_are_a_plain_iterator(js: blocking.JetStream, stream: blocking.Stream) -> None:
    with js.advisories(["consumer_action"], stream=stream.name) as events:
        assert events.next(timeout=0.05) is None
        stream.create_consumer(ConsumerConfig(name="c")).delete()
        seen = [type(event).__name__ for _, event in zip(range(2), events, strict=False)]
        assert events.dropped == 0
        assert all(stream.name in subject for subject in events.subjects)
    assert len(set(seen)) == 1
    assert events.next() is None


def test_wrong_kinds_are_refused_at_the_call(js: blocking.JetStream) -> None:
    with pytest.raises(UsageError, match="no_such_kind"):
        js.advisories(["no_such_kind"])


def test_dead_letters_are_a_plain_iterator(server: Server) -> None:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name="S", subjects=["S.>"], allow_direct=True))
        fill(js, stream, 5)
        consumer = stream.create_consumer(ConsumerConfig(name="c"))
        with pytest.raises(UsageError):
            list(js.dead_letters("S", "c"))
        js.create_advisory_stream()
        for message in consumer.fetch(3):
            message.term("poison")
        following = js.dead_letters("S", "c", follow=True)
        letters = [letter for _, letter in zip(range(3), following, strict=False)]
        assert [letter.sequence for letter in letters] == [1, 2, 3]
        assert {letter.reason for letter in letters} == {"poison"}
        assert [letter.message.data for letter in letters if letter.message] == [b"0", b"1", b"2"]
        threading.Timer(0.1, lambda: consumer.fetch(1)[0].term("late")).start()
        assert next(following).reason == "late"
        assert isinstance(following, Generator)
        following.close()
        durable = js.dead_letters("S", "c", follow=True, durable="alerts")
        assert [next(durable).sequence for _ in range(2)] == [1, 2]
        assert js.consumer_info("ADVISORIES", "alerts").num_ack_pending == 1
        assert isinstance(durable, Generator)
        durable.close()
        # The second was not done: nothing was asked for after it.
        assert next(js.dead_letters("S", "c", follow=True, durable="alerts")).sequence == 2
        assert len(list(js.dead_letters("S", "c"))) == 4
        assert [letter.sequence for letter in consumer.dead_letters()] == [1, 2, 3, 4]
