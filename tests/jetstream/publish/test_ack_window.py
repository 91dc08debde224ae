"""The window of a publisher: whatever happens, no message is lost, doubled or overtaken."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jetspark.errors import OutboundBufferFull
from jetspark.jetstream.publish.ack_window import AckWindow, Message
from jetspark.wire import encode

ACK_TIMEOUT = 5.0
TIMEOUT = 30.0


def make(number: int, now: float = 0.0, *, size: int = 10) -> Message:
    frame = encode.hpub(b"orders.new", b"_INBOX.x.%d" % number, b"NATS/1.0\r\n\r\n", bytes(size))
    return Message(number, "orders.new", None, frame, Future(), now + TIMEOUT, now)


class Windows(RuleBasedStateMachine):
    """Plays the publisher and the server with one clock."""

    def __init__(self) -> None:
        super().__init__()
        self.window = AckWindow(max_pending=4, max_buffered_bytes=1 << 20, ack_timeout=ACK_TIMEOUT)
        self.now = 100.0
        self.published = 0
        self.settled: set[int] = set()
        self.answered = 0
        self.answered_at = 0.0

    def settle(self, messages: list[Message]) -> None:
        for message in messages:
            assert message.number not in self.settled
            self.settled.add(message.number)

    @rule(count=st.integers(1, 6))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            message = make(self.published, self.now)
            if self.window.has_room and not self.window.retry:
                self.window.sent[message.number] = message
            else:
                self.window.enqueue(message)

    @precondition(lambda self: self.window.sent)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.window.sent)))
        message = self.window.sent.pop(token)
        self.settle([message])
        self.answered, self.answered_at = message.number, self.now

    @precondition(lambda self: self.window.sent)
    @rule(data=st.data())
    def nobody_takes(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.window.sent)))
        self.window.retry.append(self.window.sent.pop(token))

    @rule()
    def break_the_connection(self) -> None:
        self.window.lose(list(self.window.sent.values()))

    @precondition(lambda self: not self.window.sent)
    @rule()
    def requeue(self) -> None:
        self.window.requeue()

    @precondition(lambda self: not self.window.retry)
    @rule()
    def send(self) -> None:
        while self.window.can_send:
            self.window.take(self.now)

    @rule(seconds=st.floats(0.1, 12.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        late, _ = self.window.expire(self.now, answered_at=self.answered_at, answered=self.answered)
        assert all(message.deadline <= self.now for message in late)
        self.settle(late)

    @rule()
    def give_up_every_third(self) -> None:
        self.settle(self.window.remove(lambda message: message.number % 3 == 0))

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        places = [*self.window.sent.values(), *self.window.retry, *self.window.waiting]
        numbers = [message.number for message in places]
        assert sorted(numbers) == sorted(set(range(1, self.published + 1)) - self.settled)
        assert self.window.oldest() == min(numbers, default=None)

    @invariant()
    def the_window_is_not_exceeded_and_the_order_kept(self) -> None:
        sent = [message.number for message in self.window.sent.values()]
        waiting = [message.number for message in self.window.waiting]
        assert len(sent) <= self.window.max_pending
        assert sent == sorted(sent)
        assert waiting == sorted(waiting)
        if waiting:
            assert all(message.number < waiting[0] for message in self.window.retry)
            assert all(number < waiting[0] for number in sent)

    @invariant()
    def bytes_are_counted(self) -> None:
        assert self.window.waiting_bytes == sum(len(message.frame) for message in self.window.waiting)

    @invariant()
    def it_is_looked_at_again_as_long_as_there_is_something(self) -> None:
        when = self.window.next_check(self.now)
        places = [*self.window.sent.values(), *self.window.retry, *self.window.waiting]
        assert (when is not None) == bool(places)
        if when is not None:
            assert when <= self.now + ACK_TIMEOUT

    def teardown(self) -> None:
        self.settle(self.window.clear())
        assert self.settled == set(range(1, self.published + 1))


Windows.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestWindows = Windows.TestCase


def test_a_silent_server_has_lost_what_is_older_than_the_ack_timeout() -> None:
    window = AckWindow(10, 0, ACK_TIMEOUT)
    for number, sent_at in ((1, 0.0), (2, 0.0), (3, 3.0)):
        window.sent[number] = make(number, sent_at)
    late, lost = window.expire(6.0, answered_at=0.0, answered=0)
    assert late == []
    assert [message.number for message in lost] == [1, 2]
    assert all(message.unknown for message in lost)
    assert [message.number for message in window.sent.values()] == [3]


def test_a_slow_server_has_lost_only_what_is_older_than_its_last_answer() -> None:
    window = AckWindow(10, 0, ACK_TIMEOUT)
    for number in (1, 3, 4):
        window.sent[number] = make(number)
    _, lost = window.expire(6.0, answered_at=5.9, answered=2)
    assert [message.number for message in lost] == [1]


@given(sizes=st.lists(st.integers(0, 2000), max_size=20), limit=st.integers(0, 5000))
def test_no_more_bytes_wait_than_may(sizes: list[int], limit: int) -> None:
    window = AckWindow(1, limit, ACK_TIMEOUT)
    for number, size in enumerate(sizes, start=1):
        message = make(number, size=size)
        if window.waiting_bytes + len(message.frame) > limit:
            with pytest.raises(OutboundBufferFull):
                window.enqueue(message)
        else:
            window.enqueue(message)
    assert window.waiting_bytes <= limit


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_the_size_of_a_message_is_that_of_headers_and_payload(size: int) -> None:
    assert make(1, size=size).size == len(b"NATS/1.0\r\n\r\n") + size
