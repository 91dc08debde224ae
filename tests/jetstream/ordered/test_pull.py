"""Ordered consumers against a real server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    ConsumerNotFound,
    Error,
    StreamNotFound,
    Timeout,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.pull.iterate import Messages
from jetspark.jetstream.stream import Stream
from jetspark.server import Server
from tests.jetstream.support import cut_at_answer
from tests.support.cases import for_each
from tests.support.consuming import LONG, fill, listeners, make_stream, sequences, until
from tests.support.proxy import TCPProxy
from tests.support.timing import set_timing
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


async def take(messages: Messages, number: int) -> list[int]:
    async with asyncio.timeout(LONG):
        return sequences([await anext(messages) for _ in range(number)])


async def names(stream: Stream) -> list[str]:
    return [name async for name in stream.consumer_names()]


async def delete_consumers(stream: Stream) -> None:
    for name in await names(stream):
        with suppress(ConsumerNotFound):  # One that was replaced is deleted by its reader.
            await stream.delete_consumer(name)


async def no_consumers(stream: Stream) -> None:
    async def none() -> bool:
        return not await names(stream)

    await until(none, "the consumers to be gone")


async def mixed_stream(js: JetStream) -> Stream:
    """1 a, 2 b, 3 c, 4 a, 5 b, 6 c, 7 a."""
    stream = await make_stream(js)
    for subject in "abcabca":
        await fill(js, stream, 1, subject=f"orders.{subject}")
    return stream


# --- reading


async def test_fetch_goes_on_where_it_was(js: JetStream) -> None:
    stream = await make_stream(js, 10)
    ordered = await stream.ordered_consumer()
    assert ordered.last_sequence == 0
    assert sequences(await ordered.fetch(4)) == [1, 2, 3, 4]
    assert sequences(await ordered.fetch_no_wait(100)) == [5, 6, 7, 8, 9, 10]
    assert ordered.last_sequence == 10
    assert await ordered.fetch(5, expires=0.1) == []
    assert await ordered.fetch_no_wait(5) == []
    await fill(js, stream, 1)
    assert sequences(await ordered.fetch(1)) == [11]
    assert len(await names(stream)) == 1


async def test_fetch_by_bytes(js: JetStream) -> None:
    stream = await make_stream(js, 20)
    ordered = await stream.ordered_consumer()
    seen: list[int] = []
    while len(seen) < 20:
        batch = await ordered.fetch(max_bytes=500, expires=3)
        assert batch
        seen += sequences(batch)
    assert seen == list(range(1, 21))


async def test_next(js: JetStream) -> None:
    stream = await make_stream(js, 2)
    ordered = await stream.ordered_consumer()
    for expected in (b"1", b"2"):
        message = await ordered.next()
        assert message is not None
        assert message.data == expected
    assert await ordered.next(expires=0.1) is None


@pytest.mark.parametrize("max_messages", [1, 7, 500])
async def test_messages_come_in_order(js: JetStream, max_messages: int) -> None:
    stream = await make_stream(js, 3000)
    ordered = await stream.ordered_consumer()
    async with ordered.messages(max_messages=max_messages) as messages:
        assert await take(messages, 3000) == list(range(1, 3001))


async def test_consume_gets_them_in_order(js: JetStream) -> None:
    stream = await make_stream(js, 1000)
    ordered = await stream.ordered_consumer()
    seen: list[JetStreamMsg] = []

    async def handle(message: JetStreamMsg) -> None:
        await asyncio.sleep(0)
        seen.append(message)

    async with await ordered.consume(handle):
        await eventually(lambda: len(seen) == 1000, "all of them")
    assert sequences(seen) == list(range(1, 1001))
    await no_consumers(stream)


async def test_acknowledging_does_nothing(js: JetStream) -> None:
    stream = await make_stream(js, 1)
    ordered = await stream.ordered_consumer()
    (message,) = await ordered.fetch(1)
    assert message.settled
    await message.ack()
    await message.nak()


async def test_the_consumers_of_the_chain_have_the_expected_configuration(js: JetStream) -> None:
    stream = await make_stream(js, 1, storage="file")
    ordered = await stream.ordered_consumer(name_prefix="reader", inactive_threshold=30)
    assert ordered.cached_info is None
    await ordered.fetch(1)
    assert ordered.cached_info is not None
    config = (await js.consumer_info("ORDERS", "reader_1")).config
    assert (config.ack_policy, config.mem_storage, config.num_replicas) == ("none", True, 1)
    assert (config.max_deliver, config.inactive_threshold) == (1, 30)


# --- what is read


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"filter_subjects": "orders.b"}, [2, 5]),
        ({"filter_subjects": ["orders.b"]}, [2, 5]),
        ({"filter_subjects": ["orders.b", "orders.c"]}, [2, 3, 5, 6]),
        ({"opt_start_seq": 5}, [5, 6, 7]),
        ({"opt_start_seq": 3, "filter_subjects": "orders.a"}, [4, 7]),
        ({"deliver_policy": "last"}, [7]),
        ({"deliver_policy": "last_per_subject", "filter_subjects": "orders.>"}, [5, 6, 7]),
        ({"deliver_policy": "new"}, []),
    ],
)
async def test_what_it_reads_can_be_chosen(
    js: JetStream, options: dict[str, Any], expected: list[int]
) -> None:
    stream = await mixed_stream(js)
    fetched = await stream.ordered_consumer(**options)
    assert sequences(await fetched.fetch_no_wait(100)) == expected
    iterated = await stream.ordered_consumer(**options)
    async with iterated.messages() as messages:
        assert await take(messages, len(expected)) == expected


async def test_from_a_time_on(js: JetStream) -> None:
    stream = await mixed_stream(js)
    start = (await stream.get_message(4)).timestamp
    ordered = await stream.ordered_consumer(opt_start_time=start)
    assert sequences(await ordered.fetch_no_wait(100)) == [4, 5, 6, 7]


async def test_headers_only(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"12345", headers={"Colour": "red"})
    ordered = await stream.ordered_consumer(headers_only=True)
    (message,) = await ordered.fetch(1)
    assert message.data == b""
    assert (message.headers["Colour"], message.headers["Nats-Msg-Size"]) == ("red", "5")


async def test_deleted_messages_are_not_a_gap(js: JetStream) -> None:
    stream = await make_stream(js, 20)
    for sequence in (2, 3, 7, 19):
        await stream.delete_message(sequence)
    expected = [n for n in range(1, 21) if n not in (2, 3, 7, 19)]
    ordered = await stream.ordered_consumer(name_prefix="reader")
    async with ordered.messages(max_messages=3) as messages:
        assert await take(messages, 16) == expected
        assert await names(stream) == ["reader_1"]


@for_each("option", ["group", "priority", "min_pending", "min_ack_pending"])
async def test_options_of_priority_groups_are_refused_by_name(js: JetStream, option: str) -> None:
    ordered = await (await make_stream(js)).ordered_consumer()
    value: Any = "jobs" if option == "group" else 1
    with pytest.raises(UsageError, match=option):
        ordered.messages(**{option: value})
    with pytest.raises(UsageError, match=option):
        await ordered.consume(print, **{option: value})


async def test_conflicting_options_are_named(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="opt_start_seq"):
        await js.ordered_consumer("ORDERS", opt_start_seq=1, opt_start_time=datetime.now(UTC))
    with pytest.raises(UsageError, match="name_prefix"):
        await js.ordered_consumer("ORDERS", name_prefix="a b")
    with pytest.raises(StreamNotFound):
        await js.ordered_consumer("NOWHERE")


# --- when the consumer is lost


async def test_fetch_goes_on_behind_the_last_when_the_consumer_is_deleted(js: JetStream) -> None:
    stream = await make_stream(js, 10)
    ordered = await stream.ordered_consumer()
    for first in (1, 4, 7):
        assert sequences(await ordered.fetch(3)) == [first, first + 1, first + 2]
        await delete_consumers(stream)
    assert sequences(await ordered.fetch(1)) == [10]


@pytest.mark.parametrize("how", ["fetch", "fetch_no_wait", "next"])
async def test_what_a_broken_connection_took_along_is_fetched_again(
    js: JetStream, proxy: TCPProxy, how: str
) -> None:
    stream = await make_stream(js, 10)
    async with await connect(proxy.url, reconnect_wait=0.01) as nc:
        ordered = await nc.jetstream().ordered_consumer(stream.name)
        assert sequences(await ordered.fetch(3)) == [1, 2, 3]
        cut_at_answer(proxy, b"$JS.ACK")
        if how == "next":
            message = await ordered.next(LONG)
            assert message is not None
            assert sequences([message]) == [4]
        elif how == "fetch":
            assert sequences(await ordered.fetch(7, expires=LONG)) == list(range(4, 11))
        else:
            assert sequences(await ordered.fetch_no_wait(100)) == list(range(4, 11))
        assert proxy.accepted == 2


async def test_what_is_lost_between_two_fetches_is_fetched_again(js: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(js, 10)
    async with await connect(proxy.url, reconnect_wait=0.01) as nc:
        ordered = await nc.jetstream().ordered_consumer(stream.name)
        assert sequences(await ordered.fetch(3)) == [1, 2, 3]
        cut_at_answer(proxy, b"$JS.ACK")
        proxy.refuse()  # Until the fetch has ended.
        assert await ordered.fetch(7, expires=0.2) == []
        ordered._api.timeout = 0.2
        with pytest.raises(Timeout):  # An empty list would say that there is nothing.
            await ordered.fetch_no_wait(7)
        ordered._api.timeout = LONG
        proxy.accept()
        assert sequences(await ordered.fetch(7, expires=LONG)) == list(range(4, 11))


async def test_a_fetch_that_waits_goes_on_when_the_consumer_is_deleted(js: JetStream) -> None:
    stream = await make_stream(js, 2)
    ordered = await stream.ordered_consumer()
    assert len(await ordered.fetch(2)) == 2
    fetching = asyncio.create_task(ordered.fetch(1, expires=LONG))
    (name,) = await names(stream)

    async def waiting() -> bool:
        return (await js.consumer_info("ORDERS", name)).num_waiting == 1

    await until(waiting, "the request to wait")
    await stream.delete_consumer(name)
    await fill(js, stream, 1)
    assert sequences(await fetching) == [3]


async def test_messages_go_on_behind_the_last_when_the_consumer_is_deleted(js: JetStream) -> None:
    stream = await make_stream(js, 100)
    ordered = await stream.ordered_consumer()
    seen: list[int] = []
    async with ordered.messages(max_messages=10) as messages:
        while len(seen) < 100:
            seen += await take(messages, 20)
            await delete_consumers(stream)
        await fill(js, stream, 10)
        seen += await take(messages, 10)
    assert seen == list(range(1, 111))
    await no_consumers(stream)


async def test_before_the_first_message_it_restarts_at_the_configured_start(js: JetStream) -> None:
    stream = await make_stream(js, 5)
    ordered = await stream.ordered_consumer(deliver_policy="new")
    async with ordered.messages() as messages:
        assert await messages.next(timeout=0.1) is None

        async def one() -> bool:
            return len(await names(stream)) == 1

        await until(one, "the first consumer")
        (name,) = await names(stream)
        await stream.delete_consumer(name)

        async def another() -> bool:
            return await names(stream) not in ([], [name])

        await until(another, "the next consumer")
        await fill(js, stream, 2)
        assert await take(messages, 2) == [6, 7]


async def test_a_stream_that_is_deleted_ends_it(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    async with asyncio.timeout(LONG), ordered.messages(on_error=lambda error: None) as messages:
        assert await take(messages, 3) == [1, 2, 3]
        await stream.delete()
        with pytest.raises(StreamNotFound):
            await anext(messages)


async def test_a_fetch_from_a_deleted_stream_raises_stream_not_found(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    assert len(await ordered.fetch(3)) == 3
    await stream.delete()
    with pytest.raises(StreamNotFound):
        await ordered.fetch(1, expires=LONG)


async def test_a_cancelled_fetch_loses_nothing(js: JetStream) -> None:
    stream = await make_stream(js, 2000)
    ordered = await stream.ordered_consumer()
    seen: list[int] = []
    delay = 0.0
    while len(seen) < 2000:
        fetching = asyncio.create_task(ordered.fetch(100))
        await asyncio.sleep(delay)
        delay += 0.0002
        fetching.cancel()
        outcome = (await asyncio.gather(fetching, return_exceptions=True))[0]
        seen += [] if isinstance(outcome, BaseException) else sequences(outcome)
        if len(seen) < 2000:
            seen += sequences(await ordered.fetch(100))
    assert seen == list(range(1, 2001))


# --- one at a time


async def test_while_messages_are_read_nothing_else_can_be(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    async with ordered.messages() as messages:
        assert await take(messages, 1) == [1]
        with pytest.raises(UsageError, match="make another one"):
            await ordered.fetch(1)
        with pytest.raises(UsageError, match="make another one"):
            await ordered.consume(lambda message: None)


@pytest.mark.parametrize("drained", [False, True])
async def test_the_next_reader_gets_what_was_buffered_and_not_read(js: JetStream, drained: bool) -> None:
    stream = await make_stream(js)
    ordered = await stream.ordered_consumer(deliver_policy="new")
    async with ordered.messages() as messages:
        assert await messages.next(timeout=0.05) is None
        await fill(js, stream, 10)
        await until_arrived(messages, 10)
        if drained:
            await messages.drain()
    assert sequences(await ordered.fetch(3)) == [1, 2, 3]
    async with ordered.messages() as messages:
        assert await take(messages, 3) == [4, 5, 6]
        if drained:
            await messages.drain()
    assert sequences(await ordered.fetch(4)) == [7, 8, 9, 10]


async def until_arrived(messages: Messages, number: int) -> None:
    await eventually(lambda: len(messages._buffer.frames) == number, f"{number} messages")


# --- nothing is left behind


async def test_nothing_is_left_on_the_server_after_stop(js: JetStream, nc: Connection) -> None:
    stream = await make_stream(js, 10)
    ordered = await stream.ordered_consumer()
    async with ordered.messages() as messages:
        assert await take(messages, 3) == [1, 2, 3]
        assert len(await names(stream)) == 1
    await no_consumers(stream)
    assert ordered.cached_info is None
    assert not listeners(nc)


async def test_delete_leaves_nothing_after_a_fetch(js: JetStream) -> None:
    stream = await make_stream(js, 10)
    ordered = await stream.ordered_consumer()
    assert sequences(await ordered.fetch(3)) == [1, 2, 3]
    await ordered.delete()
    assert await names(stream) == []
    assert sequences(await ordered.fetch(3)) == [4, 5, 6]


@pytest.mark.parametrize("how", ["delete", "stop"])
async def test_closing_right_after_it_leaves_nothing(js: JetStream, server: Server, how: str) -> None:
    stream = await make_stream(js, 10)
    nc = await connect(server.url)
    ordered = await nc.jetstream().ordered_consumer(stream.name)
    if how == "delete":
        assert sequences(await ordered.fetch(3)) == [1, 2, 3]
        await ordered.delete()
    else:
        async with ordered.messages() as messages:
            assert await take(messages, 3) == [1, 2, 3]
    await nc.close()
    await no_consumers(stream)  # The server hears of it on another connection than this question.


async def test_deleting_while_no_request_is_open_does_not_end_the_reading(js: JetStream) -> None:
    stream = await make_stream(js, 10)
    ordered = await stream.ordered_consumer()
    async with ordered.messages(max_messages=3, threshold_messages=0) as messages:
        await eventually(lambda: len(messages._buffer.frames) == 3, "a full buffer")
        await ordered.delete()
        assert await take(messages, 10) == list(range(1, 11))


async def test_deleting_does_not_wait_for_a_server_that_is_away(js: JetStream, server: Server) -> None:
    stream = await make_stream(js, 3)
    async with await connect(server.url) as nc:
        ordered = await nc.jetstream(timeout=0.3).ordered_consumer(stream.name)
        assert sequences(await ordered.fetch(3)) == [1, 2, 3]
        server.pause()
        try:
            async with asyncio.timeout(LONG):
                await ordered.delete()
        finally:
            server.resume()
        await no_consumers(stream)


async def test_a_consumer_is_deleted_though_the_first_request_is_not_answered(
    js: JetStream, proxy: TCPProxy
) -> None:
    def lose_the_first(data: bytes) -> bytes:
        if b"CONSUMER.DELETE" in data:
            proxy.client_to_server = None
        return data.replace(b"CONSUMER.DELETE", b"CONSUMER.DELETX")

    stream = await make_stream(js, 3)
    proxy.client_to_server = lose_the_first
    async with (
        await js.connection.subscribe("$JS.API.CONSUMER.DELETX.>") as silent,
        await connect(proxy.url) as nc,
    ):
        theirs = nc.jetstream()
        set_timing(theirs, chain_delete_try=0.2)
        ordered = await theirs.ordered_consumer(stream.name)
        assert sequences(await ordered.fetch(3)) == [1, 2, 3]
        await ordered.delete()
        await silent.next(timeout=LONG)
        await no_consumers(stream)


async def test_a_stop_while_the_next_consumer_is_made_leaves_nothing(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    for _ in range(10):
        ordered = await stream.ordered_consumer()
        messages = ordered.messages()
        assert await take(messages, 3) == [1, 2, 3]
        await delete_consumers(stream)
        await messages.stop()
    await no_consumers(stream)


async def test_a_start_that_is_cancelled_leaves_nothing(js: JetStream, nc: Connection) -> None:
    stream = await make_stream(js, 3)
    for turns in range(6):
        ordered = await stream.ordered_consumer()
        for reading in (ordered.fetch(1), ordered.messages().next(), ordered.consume(lambda message: None)):
            task = asyncio.create_task(reading)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert ordered._chain.reader is None
        await ordered.delete()
    await no_consumers(stream)


async def test_a_start_that_fails_leaves_nothing(js: JetStream, nc: Connection) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    await stream.delete()
    with pytest.raises(StreamNotFound):
        await ordered.consume(lambda message: None)
    with pytest.raises(StreamNotFound):
        await ordered.messages().next()
    assert not listeners(nc)
    stream = await make_stream(js, 3)
    assert sequences(await ordered.fetch(3)) == [1, 2, 3]


async def test_a_closed_connection_is_an_error(js: JetStream, nc: Connection) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    await nc.close()
    for reading in (ordered.fetch(1), ordered.messages().next(), ordered.consume(lambda message: None)):
        with pytest.raises(ConnectionClosed):
            await reading


async def test_a_handler_that_fails_is_reported_and_the_rest_goes_on(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    ordered = await stream.ordered_consumer()
    seen: list[int] = []
    failures: list[Error | Exception] = []

    def handle(message: JetStreamMsg) -> None:
        seen.append(message.metadata.sequence.stream)
        if len(seen) == 2:
            raise ZeroDivisionError

    async with await ordered.consume(handle, on_error=failures.append):
        await eventually(lambda: len(seen) == 3, "all of them")
    assert seen == [1, 2, 3]
    assert isinstance(failures[0], ZeroDivisionError)
