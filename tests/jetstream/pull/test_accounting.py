"""The counters of a consume, against a model of the server that serves and ends requests as it likes."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jetspark.jetstream.pull import accounting
from jetspark.jetstream.pull.accounting import Accounting, Ask

LIMITS = st.integers(min_value=1, max_value=12) | st.sampled_from([500, 1_000_000])


class LawfulServer(RuleBasedStateMachine):
    """Serves requests in any order and says what they had left. `waiting` is the truth about them."""

    @initialize(data=st.data(), limit=LIMITS)
    def start(self, data: st.DataObject, limit: int) -> None:
        self.accounting = Accounting(limit, data.draw(st.integers(0, limit), label="threshold"))
        self.waiting: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.forgotten: set[int] = set()
        #: A request was lost on the way: only the heartbeat, that is `forget`, can tell.
        self.lost = False
        #: Whether the counters can be exact.
        self.exact = True
        self.ask()

    # --- the client

    def ask(self) -> None:
        before = self.accounting.pending
        ask = self.accounting.ask()
        if ask is not None:
            assert ask.amount >= 1
            assert ask.amount + before <= self.accounting.limit
            assert ask.token not in self.asked
            self.waiting[ask.token] = self.asked[ask.token] = ask.amount

    @rule()
    def ask_after_a_while(self) -> None:
        self.ask()

    @precondition(lambda self: self.accounting.buffered)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        self.accounting.taken(data.draw(st.integers(1, self.accounting.buffered)))
        self.ask()

    # --- the server

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def serve_the_oldest(self, data: st.DataObject) -> None:
        self.serve(min(self.waiting), data)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def serve_any(self, data: st.DataObject) -> None:
        self.serve(self.draw_waiting(data), data)

    @precondition(lambda self: self.waiting)
    @rule(rounds=st.integers(1, 3))
    def take_turns(self, rounds: int) -> None:
        for _ in range(rounds):
            for token in sorted(self.waiting):
                self.deliver(token, 1)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def end_with_a_number(self, data: st.DataObject) -> None:
        token = self.draw_waiting(data)
        self.end(token, self.waiting[token])
        self.ask()

    @precondition(lambda self: self.waiting)
    @rule()
    def refuse_the_newest(self) -> None:
        token = max(self.waiting)
        if self.waiting[token] == self.asked[token]:
            self.end(token, None)

    # --- what always holds

    @invariant()
    def counters_are_never_negative(self) -> None:
        assert self.accounting.requested >= 0
        assert self.accounting.buffered >= 0
        assert self.accounting.pending == self.accounting.requested + self.accounting.buffered

    @invariant()
    def no_more_counts_as_requested_than_is_open(self) -> None:
        if not self.lost:
            assert self.accounting.requested <= sum(self.waiting.values())

    @invariant()
    def what_can_be_exact_is_and_never_beyond_the_limit(self) -> None:
        if self.exact:
            assert self.accounting.requested == sum(self.waiting.values())
            assert self.accounting.pending <= self.accounting.limit

    @invariant()
    def it_asks_when_nothing_is_open_and_little_is_buffered(self) -> None:
        buffered = self.accounting.buffered
        if (
            not self.waiting
            and not self.lost
            and buffered <= self.accounting.threshold
            and buffered < self.accounting.limit
        ):
            ask = copy.deepcopy(self.accounting).ask()
            assert ask is not None
            assert ask.amount == self.accounting.limit - buffered

    def teardown(self) -> None:
        """Whatever happened: when all have ended and all is taken, the whole limit is asked for."""
        if not hasattr(self, "accounting"):
            return
        for token, left in list(self.waiting.items()):
            self.end(token, left)
        if self.lost:
            self.accounting.forget()
        self.accounting.taken(self.accounting.buffered)
        ask = self.accounting.ask()
        assert ask is not None
        assert ask.amount == self.accounting.limit

    # --- steps

    def draw_waiting(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.waiting)), label="token")

    def serve(self, token: int, data: st.DataObject) -> None:
        self.deliver(token, data.draw(st.integers(1, self.waiting[token]), label="amount"))

    def deliver(self, token: int, amount: int) -> None:
        self.waiting[token] -= amount
        if not self.waiting[token]:
            del self.waiting[token]
        self.accounting.arrived(amount)

    def end(self, token: int, undelivered: int | None) -> None:
        known = self.accounting.ended(token, undelivered)
        assert not (known and token in self.forgotten)
        del self.waiting[token]


class UnreliableServer(LawfulServer):
    """Does also what it should not, and the client forgets its requests, as after a missed heartbeat."""

    @rule()
    def forget(self) -> None:
        self.accounting.forget()
        self.forgotten |= self.asked.keys()
        self.lost = False
        self.exact = self.exact and not self.waiting
        self.ask()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def end_without_a_number(self, data: st.DataObject) -> None:
        self.exact = False
        self.end(self.draw_waiting(data), None)
        self.ask()

    @precondition(lambda self: self.forgotten - self.waiting.keys())
    @rule(data=st.data(), undelivered=st.none() | st.integers(0, 20))
    def repeat_an_old_status(self, data: st.DataObject, undelivered: int | None) -> None:
        before = self.accounting.requested
        old = sorted(self.forgotten - self.waiting.keys())
        assert not self.accounting.ended(data.draw(st.sampled_from(old)), undelivered)
        assert self.accounting.requested == before

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def lose_a_request(self, data: st.DataObject) -> None:
        del self.waiting[self.draw_waiting(data)]
        self.lost = True
        self.exact = False

    @rule(amount=st.integers(1, 20))
    def send_what_nobody_asked_for(self, amount: int) -> None:
        self.accounting.arrived(amount)
        self.exact = False


SETTINGS = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLawfulServer = LawfulServer.TestCase
TestLawfulServer.settings = SETTINGS
TestUnreliableServer = UnreliableServer.TestCase
TestUnreliableServer.settings = SETTINGS


# --- the same as examples


def test_the_first_request_asks_for_the_whole_limit() -> None:
    counters = Accounting(10, 5)
    assert counters.ask() == Ask(token=1, amount=10)
    assert counters.requested == counters.pending == 10
    assert counters.ask() is None


def test_it_fills_up_when_pending_falls_to_the_threshold() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    counters.arrived(10)
    counters.taken(4)
    assert counters.ask() is None
    counters.taken(1)
    assert counters.ask() == Ask(token=2, amount=5)


def test_what_is_still_to_come_counts_as_pending() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    counters.arrived(5)
    assert counters.ask() is None
    counters.taken(5)
    assert counters.ask() == Ask(2, 5)
    assert counters.requested == 10


@pytest.mark.parametrize("threshold", [0, 1])
def test_a_limit_of_one_works(threshold: int) -> None:
    counters = Accounting(1, threshold)
    for token in range(1, 4):
        assert counters.ask() == Ask(token, 1)
        assert counters.ask() is None
        counters.arrived(1)
        assert counters.ask() is None
        counters.taken(1)


def test_a_threshold_of_zero_waits_until_all_is_taken() -> None:
    counters = Accounting(3, 0)
    counters.ask()
    counters.arrived(3)
    counters.taken(2)
    assert counters.ask() is None
    counters.taken(1)
    assert counters.ask() == Ask(2, 3)


def test_a_threshold_at_the_limit_asks_for_every_message_taken() -> None:
    counters = Accounting(3, 3)
    counters.ask()
    counters.arrived(3)
    assert counters.ask() is None
    counters.taken(1)
    assert counters.ask() == Ask(2, 1)


def test_what_a_request_had_left_when_it_ended_is_asked_for_again() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    counters.arrived(4)
    assert counters.ended(1, 6)
    assert counters.requested == 0
    assert counters.ask() == Ask(2, 6)


def test_a_refused_request_leaves_nothing_behind() -> None:
    counters = Accounting(10, 10)
    counters.ask()
    counters.arrived(4)
    counters.taken(4)
    assert counters.ask() == Ask(2, 4)
    assert counters.ended(2, None)
    assert counters.requested == 6


def test_requests_that_are_served_by_turns_and_end_in_any_order_are_counted_exactly() -> None:
    # As nats-server 2.15 does it: five messages for two requests of six, and the second ends first.
    counters = Accounting(12, 6)
    counters.ask()
    counters.arrived(6)
    counters.taken(6)
    assert counters.ask() == Ask(2, 6)
    counters.arrived(5)
    assert counters.ended(2, 4)
    assert counters.requested == 3
    assert counters.ended(1, 3)
    assert counters.requested == 0
    assert counters.ask() == Ask(3, 12 - 5)


def test_a_request_that_ends_after_others_took_all_that_was_counted_for_it_is_counted_out() -> None:
    counters = Accounting(12, 6)
    counters.ask()
    counters.arrived(6)
    counters.taken(6)
    counters.ask()
    counters.arrived(6)
    counters.taken(6)
    assert counters.ended(1, 6)
    assert counters.requested == 0
    assert counters.ask() == Ask(3, 12)


def test_the_status_of_a_forgotten_request_changes_nothing() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    counters.forget()
    assert counters.requested == 0
    assert counters.ask() == Ask(2, 10)
    assert not counters.ended(1, 10)
    assert not counters.ended(1, None)
    assert counters.requested == 10


def test_the_status_of_a_request_that_was_never_made_changes_nothing() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    assert not counters.ended(0, 10)
    assert not counters.ended(2, 10)
    assert counters.requested == 10


def test_more_than_was_asked_for_is_buffered_and_not_counted_below_zero() -> None:
    counters = Accounting(2, 1)
    counters.ask()
    counters.arrived(5)
    assert (counters.requested, counters.buffered) == (0, 5)
    assert counters.ask() is None
    counters.taken(4)
    assert counters.ask() == Ask(2, 1)


def test_a_number_larger_than_what_was_asked_for_does_no_harm() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    assert counters.ended(1, 10**30)
    assert counters.ask() == Ask(2, 10)


def test_what_was_lost_on_the_way_is_counted_out_when_the_last_request_ends() -> None:
    counters = Accounting(10, 5)
    counters.ask()
    counters.arrived(3)
    counters.taken(3)
    assert counters.ended(1, 4)
    assert counters.pending == 0


def test_requests_that_are_served_whole_are_not_remembered_for_ever() -> None:
    counters = Accounting(4, 2)
    counters.ask()
    for _ in range(5000):
        counters.arrived(2)
        counters.taken(2)
        assert counters.ask() is not None
    assert counters.requested == 4
    assert len(counters._open) <= accounting._REMEMBERED
