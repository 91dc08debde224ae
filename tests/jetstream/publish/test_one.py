"""Publishing one message: acknowledgements, expectations, refusals, and when it is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import jetspark
from jetspark import (
    APIError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    Event,
    InsufficientResources,
    JetStreamError,
    JetStreamNotEnabled,
    JetStreamUnavailable,
    MaxPayloadError,
    NoResponders,
    NoStreamForSubject,
    PermissionsViolation,
    StreamFull,
    Timeout,
    TooManyRequests,
    UsageError,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.headers import compose_headers
from jetspark.server import Server, run
from jetspark.wire import PubFrame
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals
from tests.support.proxy import TCPProxy
from tests.support.publishing import ScriptedStream, came, lose_acknowledgements, make_stream, stored
from tests.support.timing import set_timing
from tests.support.untyped import untyped
from tests.support.watch import Watch


@pytest_asyncio.fixture
async def proxied(proxy: TCPProxy) -> AsyncIterator[JetStream]:
    async with await jetspark.connect(proxy.url) as nc:
        yield JetStream(nc)


# --- what is stored


async def test_the_acknowledgement_names_the_stream_and_the_sequence(js: JetStream) -> None:
    await make_stream(js)
    first = await js.publish("orders.new", b"one")
    second = await js.publish("orders.new", b"two")
    assert (first.stream, first.sequence, first.duplicate) == ("ORDERS", 1, False)
    assert second.sequence == 2


async def test_data_and_headers_are_stored_as_given(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish(
        "orders.new", untyped(bytearray(b"one")), headers={"k": ["v", "w"], "n": "1"}, msg_id="a1"
    )
    await js.publish("orders.empty")
    message = await stream.get_message(1)
    assert (message.subject, message.data) == ("orders.new", b"one")
    assert message.headers.get_all("k") == ["v", "w"]
    assert message.headers["Nats-Msg-Id"] == "a1"
    assert (await stream.get_message(2)).data == b""


async def test_the_second_message_of_an_id_is_a_duplicate_of_the_first(js: JetStream) -> None:
    stream = await make_stream(js)
    first = await js.publish("orders.new", b"one", msg_id="a1")
    second = await js.publish("orders.new", b"other", msg_id="a1")
    assert (second.sequence, second.duplicate) == (first.sequence, True)
    assert await stored(stream) == [b"one"]


async def test_an_id_can_be_given_as_a_header(js: JetStream) -> None:
    await make_stream(js)
    await js.publish("orders.new", msg_id="a1")
    assert (await js.publish("orders.new", headers={"Nats-Msg-Id": "a1"})).duplicate


# --- expectations


GOOD: list[dict[str, Any]] = [
    {"expected_stream": "ORDERS"},
    {"expected_last_sequence": 2},
    {"expected_last_subject_sequence": 1},
    {"expected_last_subject_sequence": 2, "expected_last_subject_sequence_subject": "orders.old"},
    {"expected_last_subject_sequence": 2, "expected_last_subject_sequence_subject": "orders.>"},
    {"expected_last_msg_id": "a2"},
]
BAD: list[tuple[dict[str, Any], type[APIError]]] = [
    ({"expected_stream": "OTHER"}, APIError),
    ({"expected_last_sequence": 1}, WrongLastSequence),
    ({"expected_last_sequence": 0}, WrongLastSequence),
    ({"expected_last_subject_sequence": 2}, WrongLastSequence),
    (
        {"expected_last_subject_sequence": 1, "expected_last_subject_sequence_subject": "orders.old"},
        WrongLastSequence,
    ),
    ({"expected_last_msg_id": "a1"}, WrongLastMsgId),
]


@pytest.mark.parametrize("expected", GOOD, ids=str)
async def test_an_expectation_that_holds_changes_nothing(js: JetStream, expected: dict[str, Any]) -> None:
    await make_stream(js)
    await js.publish("orders.new", msg_id="a1")
    await js.publish("orders.old", msg_id="a2")
    assert (await js.publish("orders.new", **expected)).sequence == 3


@pytest.mark.parametrize(("expected", "error"), BAD, ids=str)
async def test_an_expectation_that_does_not_hold_stores_nothing(
    js: JetStream, expected: dict[str, Any], error: type[APIError]
) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"1", msg_id="a1")
    await js.publish("orders.old", b"2", msg_id="a2")
    with pytest.raises(error) as raised:
        await js.publish("orders.new", b"3", **expected)
    assert type(raised.value) is error
    assert await stored(stream) == [b"1", b"2"]


async def test_a_wrong_last_sequence_says_which_is_right(js: JetStream) -> None:
    await make_stream(js)
    await js.publish("orders.new")
    with pytest.raises(WrongLastSequence) as raised:
        await js.publish("orders.new", expected_last_sequence=7)
    assert raised.value.last_sequence == 1


async def test_an_empty_stream_and_an_empty_subject_are_expected_with_zero(js: JetStream) -> None:
    await make_stream(js)
    assert (await js.publish("orders.a", expected_last_sequence=0)).sequence == 1
    assert (await js.publish("orders.b", expected_last_subject_sequence=0)).sequence == 2


async def test_a_message_lives_as_long_as_its_ttl(js: JetStream) -> None:
    stream = await make_stream(js, allow_msg_ttl=True, max_age=1.0)
    await js.publish("orders.short", b"short", ttl=1)
    await js.publish("orders.long", b"long", ttl="never")
    async with asyncio.timeout(20):
        while (await stream.info()).state.messages > 1:
            await asyncio.sleep(0.05)
    assert (await stream.get_message(2)).data == b"long"


async def test_a_ttl_is_rounded_up_to_whole_seconds(js: JetStream) -> None:
    stream = await make_stream(js, allow_msg_ttl=True)
    await js.publish("orders.new", ttl=61.5)
    assert (await stream.get_message(1)).headers["Nats-TTL"] == "62"


async def test_a_stream_without_ttl_refuses_one_and_the_hint_says_what_to_change(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(APIError, match="allow_msg_ttl"):
        await js.publish("orders.new", ttl=5)


# --- refused locally


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"msg_id": "a", "headers": {"Nats-Msg-Id": "b"}},
    {"ttl": 5, "headers": {"Nats-TTL": "1"}},
    {"headers": {"nats-msg-id": "a"}},
    {"headers": {"Nats-Msg-Id": ["a", "b"]}},
    {"headers": {"Nats-Msg-Id": ""}},
    {"msg_id": ""},
    {"msg_id": " a"},
    {"msg_id": 7},
    {"msg_id": "1\r\nNats-Expected-Stream: A"},
    {"expected_last_msg_id": "a\nb"},
    {"expected_stream": "A.B"},
    {"expected_last_sequence": -1},
    {"expected_last_sequence": True},
    {"expected_last_subject_sequence": "1"},
    {"expected_last_subject_sequence_subject": "a"},
    {"expected_last_subject_sequence": 1, "expected_last_subject_sequence_subject": "a b"},
    {"ttl": 0.5},
    {"ttl": float("inf")},
    {"ttl": "ever"},
    {"timeout": 0},
    {"timeout": float("nan")},
    {"retry_for": -1},
    {"data": "text"},
]


async def test_a_bad_argument_is_named_and_nothing_is_sent(js: JetStream, golden: Golden) -> None:
    stream = await make_stream(js)
    told = Refusals()
    for arguments in BAD_ARGUMENTS:
        with told.refusal(arguments):
            await js.publish("orders.new", **arguments)
    golden("errors-publish", told.text())
    assert await stored(stream) == []


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="expected_seq"):
        compose_headers(None, None, untyped({"expected_seq": 1}))


@for_each("subject", ["orders.*", "orders.>", "", "orders new", "orders..new"])
async def test_a_subject_that_cannot_be_published_to_is_refused(js: JetStream, subject: str) -> None:
    with pytest.raises(UsageError):
        await js.publish(subject)


async def test_a_message_over_max_payload_is_refused_and_the_connection_stays(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(MaxPayloadError):
        await js.publish("orders.new", bytes(js.connection.max_payload + 1))
    assert (await js.publish("orders.new")).sequence == 1
    assert js.connection.statistics.reconnects == 0


# --- refused by the server


async def test_a_full_stream_refuses_at_once(js: JetStream) -> None:
    await make_stream(js, max_msgs=1, discard="new")
    await js.publish("orders.new")
    with pytest.raises(StreamFull):
        await js.publish("orders.new")


async def test_a_subject_without_a_stream_is_an_error_that_says_so_soon(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(NoStreamForSubject, match=r"'order\.new'.*create_stream") as raised:
        await js.publish("order.new", retry_for=3600)
    assert isinstance(raised.value, NoResponders)
    assert isinstance(raised.value, JetStreamError)


async def test_a_server_without_jetstream_is_an_error_that_says_so() -> None:
    async with Server(jetstream=False) as server, await jetspark.connect(server.url) as nc:
        with pytest.raises(JetStreamNotEnabled):
            await JetStream(nc).publish("orders.new")


async def test_publishing_without_permission_is_an_error() -> None:
    config = """authorization { users = [
        { user: u, password: p, permissions: { publish: { deny: ["orders.secret"] } } } ] }"""
    with run(config=config) as server:
        async with await jetspark.connect(server.url, user="u", password="p") as nc:
            await make_stream(JetStream(nc))
            with pytest.raises(PermissionsViolation):
                await JetStream(nc).publish("orders.secret")
            assert (await JetStream(nc).publish("orders.new")).sequence == 1


async def test_publishing_on_a_closed_connection_is_an_error(nc: Connection, js: JetStream) -> None:
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await js.publish("orders.new")


# --- tried again


async def test_while_nobody_answers_it_is_tried_again_under_the_same_id(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted

    def answer(_: PubFrame) -> None:
        if len(stream.received) < 3:
            stream.nobody()
        else:
            stream.acknowledge()

    stream.on_message = answer
    ack = await js.publish("orders.new", b"one", msg_id="a1")
    assert ack.sequence == 1
    assert stream.ids == ["a1", "a1", "a1"]


@pytest.mark.parametrize("err_code", [10167, 10008, 10163, 10158])
async def test_a_server_that_has_too_much_to_do_is_asked_again(
    scripted: tuple[ScriptedStream, JetStream], err_code: int
) -> None:
    stream, js = scripted

    def answer(_: PubFrame) -> None:
        if len(stream.received) == 1:
            stream.refuse(err_code=err_code)
        else:
            stream.acknowledge()

    stream.on_message = answer
    assert (await js.publish("orders.new")).sequence == 1
    assert len(stream.received) == 2


@pytest.mark.parametrize(
    ("err_code", "error"), [(10167, TooManyRequests), (10008, JetStreamUnavailable), (0, NoResponders)]
)
async def test_after_retry_for_the_last_error_is_raised(
    scripted: tuple[ScriptedStream, JetStream], err_code: int, error: type[Exception]
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.refuse(err_code=err_code) if err_code else stream.nobody()
    with pytest.raises(error):
        await js.publish("orders.new", retry_for=2.0)
    # The shortest waits are 0.125, 0.25, 0.5, 0.5 and 0.5 s; a slow machine has time for fewer of them.
    assert 2 <= len(stream.received) <= 6


async def test_with_retry_for_zero_there_is_one_try(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.nobody()
    with pytest.raises(NoResponders):
        await js.publish("orders.new", retry_for=0)
    assert len(stream.received) == 1


async def test_a_server_without_storage_is_not_asked_again(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.refuse(err_code=10023, code=503, text="insufficient resources")
    with pytest.raises(InsufficientResources):
        await js.publish("orders.new")
    assert len(stream.received) == 1


@pytest.mark.parametrize(("msg_id", "said"), [("a1", "same msg_id is safe"), (None, "msg_id makes")])
async def test_without_an_answer_it_times_out_and_the_hint_says_what_is_safe(
    scripted: tuple[ScriptedStream, JetStream], msg_id: str | None, said: str
) -> None:
    _, js = scripted
    with pytest.raises(Timeout, match=said):
        await js.publish("orders.new", msg_id=msg_id, timeout=0.1, retry_for=0)


async def test_with_an_id_it_is_tried_again_when_no_answer_comes(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.acknowledge() if len(stream.received) >= 3 else stream.lose()
    set_timing(js, silence=0.1)
    assert (await js.publish("orders.new", msg_id="a1", timeout=3600, retry_for=4.5)).stream == "ORDERS"
    # More than three when the last answer took too long.
    assert len(stream.ids) >= 3
    assert set(stream.ids) == {"a1"}


async def test_without_an_id_it_is_not_tried_again_when_no_answer_comes(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    with pytest.raises(Timeout):
        await js.publish("orders.new", timeout=0.1)
    await came(stream, 1)
    assert len(stream.received) == 1


# --- when the connection breaks


async def lose_the_next_acknowledgement_and_cut(proxy: TCPProxy) -> None:
    def lost(_: bytes) -> bool:
        proxy.server_to_client = None
        proxy.cut()
        return True

    lose_acknowledgements(proxy, lost)


async def test_without_an_id_a_broken_connection_is_an_error_whose_hint_names_msg_id(
    proxied: JetStream, proxy: TCPProxy
) -> None:
    stream = await make_stream(proxied)
    await lose_the_next_acknowledgement_and_cut(proxy)
    with pytest.raises(ConnectionLost, match="With a msg_id"):
        await proxied.publish("orders.new", b"one")
    assert await stored(stream) == [b"one"]


async def test_with_an_id_it_is_published_again_and_stored_once(proxied: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(proxied)
    await lose_the_next_acknowledgement_and_cut(proxy)
    ack = await proxied.publish("orders.new", b"one", msg_id="a1")
    assert (ack.sequence, ack.duplicate) == (1, True)
    assert await stored(stream) == [b"one"]


@pytest.mark.parametrize(
    "expected", [{"expected_last_sequence": 1}, {"expected_last_subject_sequence": 1}], ids=str
)
async def test_what_was_stored_before_the_break_is_not_refused_for_its_own_sequence(
    proxied: JetStream, proxy: TCPProxy, expected: dict[str, Any]
) -> None:
    stream = await make_stream(proxied)
    await proxied.publish("orders.new", b"one")
    await lose_the_next_acknowledgement_and_cut(proxy)
    ack = await proxied.publish("orders.new", b"two", msg_id="a2", **expected)
    assert (ack.sequence, ack.duplicate) == (2, True)
    assert await stored(stream) == [b"one", b"two"]


async def test_a_sequence_that_was_wrong_before_the_break_still_is(
    proxied: JetStream, proxy: TCPProxy
) -> None:
    stream = await make_stream(proxied)
    await lose_the_next_acknowledgement_and_cut(proxy)
    with pytest.raises(WrongLastSequence) as raised:
        await proxied.publish("orders.new", b"two", msg_id="a2", expected_last_sequence=7)
    assert type(raised.value) is WrongLastSequence
    assert await stored(stream) == []


async def test_while_disconnected_it_waits_for_the_connection(server: Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        await make_stream(js, storage="file")
        server.kill()
        await watch.until(Event.DISCONNECTED)
        publishing = asyncio.create_task(js.publish("orders.new", b"one", timeout=60.0, retry_for=60.0))
        await asyncio.to_thread(server.start)
        assert (await publishing).sequence == 1


async def test_while_disconnected_it_gives_up_after_retry_for_and_sends_nothing_later(server: Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc, timeout=0.2)
        stream = await make_stream(JetStream(nc), storage="file")
        server.kill()
        await watch.until(Event.DISCONNECTED)
        with pytest.raises(Timeout, match="was not restored"):
            await js.publish("orders.new", b"one", retry_for=0.1)
        await asyncio.to_thread(server.start)
        await watch.until(Event.RECONNECTED)
        await nc.flush()
        assert await stored(stream) == []


async def test_the_wait_for_the_connection_counts_for_the_timeout(server: Server) -> None:
    async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
        js = JetStream(nc, timeout=300)
        await asyncio.to_thread(server.stop)
        with pytest.raises(Timeout):
            await js.publish("orders.new", timeout=0.2, retry_for=0)


async def test_a_cancelled_publish_passes_the_cancellation_on(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    arrived = asyncio.Event()
    stream.on_message = lambda _: arrived.set()
    publishing = asyncio.create_task(js.publish("orders.new"))
    await arrived.wait()
    publishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publishing
