"""Ordered consumers: every message once and in order, whatever the server does to the consumers behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from jetspark import (
    APIError,
    BadRequest,
    ConnectionClosed,
    ExceededLimit,
    LeadershipChanged,
    MissedHeartbeat,
    StreamNotFound,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.pull.iterate import Messages
from tests.jetstream.support import Errors
from tests.support.consuming import listeners
from tests.support.scripted_jetstream import Pull, ScriptedJetStream, soon
from tests.support.timing import set_timing

HOUR = 3600.0

NO_STREAM = {"code": 404, "err_code": 10059, "description": "stream not found"}
NO_LEADER = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}
NO_RESOURCES = {"code": 503, "err_code": 10023, "description": "insufficient resources"}


pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def js(server: ScriptedJetStream) -> AsyncIterator[JetStream]:
    async with connect(server.url, reconnect_wait=0.01) as nc:
        yield JetStream(nc)


@pytest.fixture
async def consumer(js: JetStream) -> OrderedConsumer:
    return OrderedConsumer(js.api, "S", name_prefix="o")


@pytest.fixture
def short_waits(js: JetStream) -> None:
    set_timing(
        js,
        chain_back_off=0.01,
        chain_back_off_limit=0.02,
        ordered_fetch_back_off=0.01,
        pull_back_off=0.01,
    )


@pytest.fixture
def no_waits(js: JetStream) -> None:
    """A back-off lasts longer than the test."""
    set_timing(js, chain_back_off=HOUR, chain_back_off_limit=HOUR)


@asynccontextmanager
async def reading(consumer: OrderedConsumer, errors: Errors, **options: Any) -> AsyncIterator[Messages]:
    defaults: dict[str, Any] = {"max_messages": 10, "expires": HOUR, "on_error": errors}
    async with consumer.messages(**defaults | options) as messages:
        yield messages


async def take(messages: Messages, count: int) -> list[int]:
    """The stream sequences of the next messages."""
    sequences = []
    async with asyncio.timeout(20):
        for _ in range(count):
            message = await messages.next()
            assert message is not None
            sequences.append(message.metadata.sequence.stream)
    return sequences


def start_of(config: dict[str, Any]) -> tuple[Any, Any]:
    return config.get("deliver_policy", "all"), config.get("opt_start_seq")


# --- what stands behind one


async def test_the_consumers_of_the_chain_keep_nothing_and_expire(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors, expires=30):
        pull = await server.pull()
        config = server.created[0]
        assert config["name"] == pull.consumer == "o_1"
        assert (config["ack_policy"], config["num_replicas"], config["mem_storage"]) == ("none", 1, True)
        assert config["max_deliver"] == 1
        assert config["inactive_threshold"] == 300 * 10**9
        assert "durable_name" not in config
        assert start_of(config) == ("all", None)
        assert pull.request["idle_heartbeat"] == 5 * 10**9
    assert await soon(server.deleted) == "o_1"


async def test_messages_need_no_acknowledgement(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2))
        message = await messages.next()
        assert message is not None
        assert message.settled
        message.ack()
    await consumer._api.connection.flush()
    assert server.acks.empty()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"opt_start_seq": 7}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}),
        ({"deliver_policy": "new"}, {"deliver_policy": "new"}),
        (
            {"opt_start_time": datetime(2026, 1, 2, tzinfo=UTC)},
            {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-02T00:00:00Z"},
        ),
        (
            {"deliver_policy": "last_per_subject", "filter_subjects": "orders.*"},
            {"deliver_policy": "last_per_subject", "filter_subject": "orders.*"},
        ),
        ({"filter_subjects": ["orders.a", "orders.b"]}, {"filter_subjects": ["orders.a", "orders.b"]}),
        ({"headers_only": True}, {"headers_only": True}),
    ],
)
async def test_before_the_first_message_the_next_consumer_starts_where_the_user_said(
    server: ScriptedJetStream,
    js: JetStream,
    errors: Errors,
    options: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    consumer = OrderedConsumer(js.api, "S", name_prefix="o", **options)
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.status("409 Consumer Deleted"))
        again = await server.pull()
        again.send(again.message(sequence=70))
        assert await take(messages, 1) == [70]
        again.send(again.status("409 Consumer Deleted"))
        await server.pull()
    assert [config["name"] for config in server.created] == ["o_1", "o_2", "o_3"]
    for config in server.created[:2]:
        assert config.items() >= expected.items()
    last = server.created[2]
    assert start_of(last) == ("by_start_sequence", 71)
    assert "opt_start_time" not in last
    assert {key: last.get(key) for key in expected if not key.startswith(("deliver", "opt"))} == {
        key: value for key, value in expected.items() if not key.startswith(("deliver", "opt"))
    }


async def test_start_sequence_and_time_exclude_each_other(js: JetStream) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        OrderedConsumer(js.api, "S", opt_start_seq=1, opt_start_time=datetime(2026, 1, 1, tzinfo=UTC))


# --- resets of messages() and consume()


async def test_after_a_gap_the_next_consumer_starts_behind_the_last_message(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        old = await server.pull()
        # The third delivery is lost. What follows it is not taken, though it is of the current consumer.
        old.send(old.messages(2), old.message(sequence=4, consumer_sequence=4), old.message())
        new = await server.pull()
        assert (new.consumer, start_of(server.created[1])) == ("o_2", ("by_start_sequence", 3))
        assert await soon(server.deleted) == "o_1"
        # The old one still sends meanwhile.
        old.send(old.message(), new.message(sequence=3), old.message(), new.message(sequence=4))
        assert await take(messages, 4) == [1, 2, 3, 4]
        assert consumer.last_sequence == 4
    assert errors.empty()


async def test_the_request_to_the_next_consumer_asks_for_what_is_not_buffered(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors):
        old = await server.pull()
        old.send(old.messages(3), old.message(consumer_sequence=9))
        assert (await server.pull()).batch == 10 - 3


async def test_skipped_stream_sequences_are_not_gaps(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.message(sequence=3), pull.message(sequence=30), pull.message(sequence=31))
        assert await take(messages, 3) == [3, 30, 31]
        assert len(server.created) == 1


async def test_statuses_of_old_consumers_change_nothing(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        old = await server.pull()
        old.send(old.message(), old.message(consumer_sequence=3))
        new = await server.pull()
        old.send(
            old.status("409 Consumer Deleted"),
            old.status("408 Request Timeout", messages=9),
            old.status("409 Leadership Change"),
            new.message(sequence=2),
        )
        assert await take(messages, 2) == [1, 2]
        await consumer._api.connection.flush()
        assert server.idle
        assert len(server.created) == 2
    assert errors.empty()


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("line", ["409 Consumer Deleted", "503"])
async def test_a_consumer_that_is_gone_is_replaced_at_once_if_it_had_worked(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors, line: str
) -> None:
    async with reading(consumer, errors) as messages:
        for number in (1, 2, 3):
            pull = await server.pull()
            assert pull.consumer == f"o_{number}"
            pull.send(pull.message(sequence=number), pull.status(line))
            assert await take(messages, 1) == [number]
        assert start_of(server.created[2]) == ("by_start_sequence", 3)
    assert errors.empty()


@pytest.mark.usefixtures("no_waits")
async def test_consumers_that_deliver_nothing_are_created_with_back_off(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.status("503"))
        pull = await server.pull()
        assert pull.consumer == "o_2"
        pull.send(pull.status("503"))
        assert await messages.next(timeout=0.05) is None
        assert len(server.created) == 2


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("line", ["100 Idle Heartbeat", "408 Request Timeout"])
async def test_a_consumer_that_answers_is_one_that_works(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors, line: str
) -> None:
    async with reading(consumer, errors):
        for _ in range(3):
            pull = await server.pull()
            pull.send(pull.status(line, messages=10))
            if line.startswith("408"):
                pull = await server.pull()
            pull.send(pull.status("409 Consumer Deleted"))
        assert (await server.pull()).consumer == "o_4"


@pytest.mark.usefixtures("short_waits")
async def test_a_new_leader_is_notified_and_the_consumer_replaced(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2))
        assert await take(messages, 2) == [1, 2]
        pull.send(pull.status("409 Leadership Change"))
        again = await server.pull()
        assert (again.consumer, start_of(server.created[1])) == ("o_2", ("by_start_sequence", 3))
        assert isinstance(await soon(errors), LeadershipChanged)


@pytest.mark.usefixtures("short_waits")
async def test_a_refused_request_is_made_again_to_the_same_consumer(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors):
        for _ in range(3):
            pull = await server.pull()
            assert pull.consumer == "o_1"
            pull.send(pull.status("409 Exceeded MaxRequestBatch of 5"))
            assert isinstance(await soon(errors), ExceededLimit)


async def test_a_bad_request_ends_it(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.status("400 Bad Request"))
        with pytest.raises(BadRequest):
            await messages.next()
        assert await soon(server.deleted) == "o_1"
    # It is free for others then.
    assert consumer._chain.reader is None


@pytest.mark.usefixtures("no_waits")
async def test_a_missed_heartbeat_is_reported_and_the_consumer_replaced(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors, expires=1) as messages:
        pull = await server.pull()
        assert pull.request["idle_heartbeat"] == 500_000_000
        pull.send(pull.message())
        assert await take(messages, 1) == [1]
        assert isinstance(await soon(errors), MissedHeartbeat)
        again = await server.pull()
        assert (again.consumer, start_of(server.created[1])) == ("o_2", ("by_start_sequence", 2))
        assert await soon(server.deleted) == "o_1"


@pytest.mark.usefixtures("no_waits")
async def test_after_a_reconnect_it_goes_on_with_the_next_consumer(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2))
        assert await take(messages, 2) == [1, 2]
        for number in (2, 3):
            server.peers[-1].abort()
            again = await server.pull()
            assert (again.consumer, again.peer) == (f"o_{number}", server.peers[-1])
            assert start_of(server.created[-1]) == ("by_start_sequence", 3)
        again.send(again.message(sequence=3))
        assert await take(messages, 1) == [3]
    assert errors.empty()


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("refusal", [None, NO_RESOURCES])
async def test_a_failed_creation_is_reported_and_retried(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors, refusal: dict[str, Any] | None
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.message())
        assert await take(messages, 1) == [1]
        server.refusals = [refusal] * 4
        pull.send(pull.status("409 Consumer Deleted"))
        for _ in range(4):
            error = await soon(errors)
            assert isinstance(error, APIError)
            assert error.code == 503
        again = await server.pull()
        assert start_of(server.created[1]) == ("by_start_sequence", 2)
        # Names are not used twice: the answer may have been lost, and not the request.
        assert again.consumer == "o_6"
        again.send(again.message(sequence=2))
        assert await take(messages, 1) == [2]


@pytest.mark.usefixtures("short_waits")
async def test_a_consumer_that_no_leader_confirmed_is_deleted(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    """A cluster without a leader may create it later, when nobody knows of it any more."""
    async with reading(consumer, errors):
        pull = await server.pull()
        server.refusals = [NO_LEADER, NO_RESOURCES]
        pull.send(pull.status("409 Consumer Deleted"))
        await server.pull()
        assert {await soon(server.deleted) for _ in range(2)} == {"o_1", "o_2"}
    assert await soon(server.deleted) == "o_4"  # o_3 was refused


async def test_each_attempt_waits_up_to_twice_as_long(
    server: ScriptedJetStream, js: JetStream, errors: Errors
) -> None:
    set_timing(js, chain_back_off=0.01, chain_back_off_limit=0.05)
    consumer = OrderedConsumer(js.api, "S", name_prefix="o")
    async with reading(consumer, errors):
        pull = await server.pull()
        pull.send(pull.status("100 Idle Heartbeat"))
        server.refusals = [None] * 5
        pull.send(pull.status("409 Consumer Deleted"))
        for wait in (0.01, 0.02, 0.04, 0.05, 0.05):
            await soon(errors)
            assert wait / 2 <= consumer._chain._wait <= wait
        await server.pull()


@pytest.mark.usefixtures("no_waits")
async def test_stop_does_not_wait_for_a_consumer_that_cannot_be_created(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors):
        pull = await server.pull()
        server.refusals = [None]
        pull.send(pull.status("409 Consumer Deleted"))
        await soon(errors)
    assert len(server.created) == 1


@pytest.mark.usefixtures("no_waits")
async def test_a_reconnect_ends_the_back_off(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors):
        pull = await server.pull()
        server.refusals = [None]
        pull.send(pull.status("409 Consumer Deleted"))
        await soon(errors)
        pull.peer.abort()
        assert (await server.pull()).peer is server.peers[1]


async def test_a_deleted_stream_ends_it(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    async with reading(consumer, errors) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2))
        assert await take(messages, 1) == [1]
        server.refusals = [NO_STREAM]
        pull.send(pull.status("409 Consumer Deleted"))
        assert await take(messages, 1) == [2]
        for _ in range(2):
            with pytest.raises(StreamNotFound):
                await messages.next()


async def test_consume_calls_the_handler_in_order_across_resets(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    handled: asyncio.Queue[JetStreamMsg] = asyncio.Queue()
    running = await consumer.consume(handled.put_nowait, max_messages=4, expires=HOUR, on_error=errors)
    pull = await server.pull()
    pull.send(pull.message(), pull.message(consumer_sequence=3))
    pull = await server.pull()
    pull.send(pull.message(sequence=2), pull.status("409 Consumer Deleted"))
    pull = await server.pull()
    pull.send(pull.message(sequence=5))
    sequences = [(await soon(handled)).metadata.sequence.stream for _ in range(3)]
    assert sequences == [1, 2, 5]
    await running.stop()
    assert {await soon(server.deleted) for _ in range(3)} == {"o_1", "o_2", "o_3"}


async def test_a_consumer_that_is_created_after_the_stop_does_not_disturb_the_next_reader(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    held: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()

    def hold(peer: Any, frame: Any) -> None:
        if b'"o_2"' in frame.data:
            held.put_nowait((peer, frame))
        else:
            server._create(peer, frame)

    server._handlers.insert(0, ("$JS.API.CONSUMER.CREATE.>", hold))
    async with reading(consumer, errors):
        pull = await server.pull()
        pull.send(pull.status("100 Idle Heartbeat"), pull.status("409 Consumer Deleted"))
        late = await soon(held)
    async with reading(consumer, errors) as messages:
        again = await server.pull()
        assert again.consumer == "o_3"
        assert await soon(server.deleted) == "o_1"
        server._create(*late)
        assert await soon(server.deleted) == "o_2"
        again.send(again.message(sequence=1))
        assert await take(messages, 1) == [1]


async def test_a_reader_that_is_stopped_while_it_starts_subscribes_to_nothing(
    server: ScriptedJetStream, consumer: OrderedConsumer, js: JetStream
) -> None:
    held: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()
    server._handlers.insert(0, ("$JS.API.CONSUMER.CREATE.>", lambda *request: held.put_nowait(request)))
    messages = consumer.messages()
    waiting = asyncio.create_task(messages.next())
    late = await soon(held)
    await messages.stop()
    server._create(*late)
    assert await waiting is None
    assert await soon(server.deleted) == "o_1"
    assert listeners(js.connection) == []


async def test_only_one_reads_from_it_at_a_time(
    server: ScriptedJetStream, consumer: OrderedConsumer, errors: Errors
) -> None:
    second = consumer.messages()
    async with reading(consumer, errors):
        with pytest.raises(UsageError):
            await consumer.fetch(1)
        with pytest.raises(UsageError):
            consumer.messages()
        with pytest.raises(UsageError):
            await consumer.consume(print)
        with pytest.raises(UsageError):
            await second.next()
    assert consumer._chain.reader is None


async def test_a_failed_first_creation_is_raised_each_time(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    server.refusals = [NO_STREAM, NO_STREAM]
    messages = consumer.messages(max_messages=10, expires=HOUR)
    for _ in range(2):
        with pytest.raises(StreamNotFound):
            await messages.next()
    reading_on = asyncio.create_task(messages.next())
    pull = await server.pull()
    pull.send(pull.message())
    assert await reading_on
    await messages.stop()


async def test_nothing_waits_on_a_closed_connection(consumer: OrderedConsumer, js: JetStream) -> None:
    await js.connection.close()
    with pytest.raises(ConnectionClosed):
        await consumer.fetch(1, expires=HOUR)
    with pytest.raises(ConnectionClosed):
        await consumer.messages().next()


# --- fetch and next


async def fetched(
    server: ScriptedJetStream, fetching: asyncio.Task[list[JetStreamMsg]], *frames: str
) -> tuple[Pull, list[int]]:
    """Answer the next pull with messages and statuses; the pull and what the fetch returns."""
    pull = await server.pull()
    pull.send(*[pull.message() if frame == "message" else pull.status(frame) for frame in frames])
    return pull, [message.metadata.sequence.stream for message in await fetching]


async def test_fetches_use_one_consumer_while_nothing_is_missing(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    pull, sequences = await fetched(server, asyncio.create_task(consumer.fetch(2)), "message", "message")
    assert (pull.batch, sequences) == (2, [1, 2])
    pull, sequences = await fetched(
        server, asyncio.create_task(consumer.fetch(2)), "message", "408 Request Timeout"
    )
    assert (pull.consumer, sequences) == ("o_1", [3])
    assert consumer.cached_info is not None
    assert consumer.cached_info.name == "o_1"
    waiting = asyncio.create_task(consumer.next())
    pull = await server.pull()
    pull.send(pull.message())
    message = await waiting
    assert message is not None
    assert (message.metadata.sequence.stream, message.settled) == (4, True)
    assert len(server.created) == 1
    await consumer.delete()
    assert await soon(server.deleted) == "o_1"


@pytest.mark.parametrize(("expires", "idle_heartbeat"), [(HOUR, None), (31.0, None), (5.0, 2.5)])
async def test_a_fetch_may_have_a_heartbeat_of_half_its_time(
    server: ScriptedJetStream, consumer: OrderedConsumer, expires: float, idle_heartbeat: float | None
) -> None:
    task = asyncio.create_task(consumer.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat))
    pull, sequences = await fetched(server, task, "message")
    assert sequences == [1]
    wanted = idle_heartbeat or min(expires / 2, 30)
    assert wanted * 0.8 <= pull.request["idle_heartbeat"] / 1e9 <= wanted


async def test_a_fetch_returns_what_came_before_a_gap_and_the_next_goes_on_there(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message(), pull.message(consumer_sequence=3), pull.message())
    assert [message.metadata.sequence.stream for message in await fetching] == [1]
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    assert (pull.consumer, start_of(server.created[1])) == ("o_2", ("by_start_sequence", 2))
    assert await soon(server.deleted) == "o_1"
    pull.send(pull.message(sequence=2))
    assert [message.metadata.sequence.stream for message in await fetching] == [2]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("line", ["409 Consumer Deleted", "503", "409 Leadership Change"])
async def test_a_fetch_to_which_nothing_came_goes_on_with_the_next_consumer(
    server: ScriptedJetStream, consumer: OrderedConsumer, line: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    for _ in range(2):
        pull = await server.pull()
        pull.send(pull.status(line))
    pull, sequences = await fetched(server, fetching, "message")
    assert (pull.consumer, sequences) == ("o_3", [1])


async def test_a_fetch_that_ended_with_an_error_after_messages_does_not_ask_that_consumer_again(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    _, sequences = await fetched(
        server, asyncio.create_task(consumer.fetch(2)), "message", "409 Consumer Deleted"
    )
    assert sequences == [1]
    pull, _ = await fetched(server, asyncio.create_task(consumer.fetch(1)), "message")
    assert pull.consumer == "o_2"
    assert start_of(server.created[1]) == ("by_start_sequence", 2)


@pytest.mark.usefixtures("short_waits")
async def test_a_fetch_whose_request_is_lost_goes_on_with_the_next_consumer(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR, idle_heartbeat=1))
    await server.pull()
    pull, sequences = await fetched(server, fetching, "message")
    assert (pull.consumer, sequences) == ("o_2", [1])


async def test_a_fetch_raises_final_errors(server: ScriptedJetStream, consumer: OrderedConsumer) -> None:
    server.refusals = [NO_STREAM]
    with pytest.raises(StreamNotFound):
        await consumer.fetch(1, expires=HOUR)
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.status("400 Bad Request"))
    with pytest.raises(BadRequest):
        await fetching


async def test_a_cancelled_fetch_loses_nothing(server: ScriptedJetStream, consumer: OrderedConsumer) -> None:
    fetching = asyncio.create_task(consumer.fetch(5, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(3))
    await consumer._api.connection.flush()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert [message.metadata.sequence.stream for message in await consumer.fetch(2)] == [1, 2]
    pull, sequences = await fetched(server, asyncio.create_task(consumer.fetch(2)), "message")
    assert (pull.batch, sequences) == (1, [3, 4])
    assert len(server.created) == 1


async def test_a_fetch_that_does_not_wait_returns_what_is_there(
    server: ScriptedJetStream, consumer: OrderedConsumer
) -> None:
    pull, sequences = await fetched(
        server, asyncio.create_task(consumer.fetch_no_wait(5)), "message", "404 No Messages"
    )
    assert (pull.request, sequences) == ({"batch": 5, "no_wait": True}, [1])
