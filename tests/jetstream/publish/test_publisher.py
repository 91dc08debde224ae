"""The windowed publisher: what is stored and refused, the window, ending."""

from __future__ import annotations

import asyncio
import functools
import weakref
from typing import Any

import pytest

import jetspark
from jetspark import (
    APIError,
    Connection,
    ConnectionClosed,
    ConnectionDraining,
    Event,
    JetStreamNotEnabled,
    MaxPayloadError,
    NoStreamForSubject,
    OutboundBufferFull,
    PermissionsViolation,
    PubAck,
    PublishError,
    StreamFull,
    Timeout,
    UsageError,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server, run
from jetspark.wire import UnsubFrame
from tests.support.cases import for_each
from tests.support.publishing import (
    ScriptedStream,
    came,
    make_stream,
    numbered,
    stored,
)
from tests.support.scripted import ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import Watch, eventually

LONG = 20.0  # seconds; only a hang takes so long

pytestmark = pytest.mark.usefixtures("unhandled")


# --- what is stored


async def test_every_future_gets_the_acknowledgement_of_its_message(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher() as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(2000)]
        assert pub.pending == 2000
        acks = await asyncio.gather(*futures)
    assert [ack.sequence for ack in acks] == list(range(1, 2001))
    assert {(ack.stream, ack.duplicate) for ack in acks} == {("ORDERS", False)}
    assert (pub.pending, pub.acked, pub.duplicates, pub.failed) == (0, 2000, 0, 0)
    assert (await stream.info()).state.messages == 2000


async def test_futures_that_nobody_keeps_leave_those_of_others_alone(js: JetStream) -> None:
    await make_stream(js)
    kept: dict[int, asyncio.Future[PubAck]] = {}
    weak: dict[int, weakref.ref[asyncio.Future[PubAck]]] = {}
    called: dict[int, int] = {}
    async with js.publisher(100) as pub:
        for number, data in enumerate(numbered(1000), start=1):
            match number % 7:
                case 0 | 1:
                    kept[number] = await pub.send("orders.new", data)
                case 2:
                    call = functools.partial(
                        lambda number, future: called.update({number: future.result().sequence}), number
                    )
                    pub.publish("orders.new", data).add_done_callback(call)
                case 3:
                    pub.publish("orders.new", data).cancel()
                case 4:
                    weak[number] = weakref.ref(pub.publish("orders.new", data))
                case _:
                    await pub.send("orders.new", data)
        await pub.flush()
        assert {number: future.result().sequence for number, future in kept.items()} == {n: n for n in kept}
        assert called == {n: n for n in range(1, 1001) if n % 7 == 2}
        await pub.send("orders.new", b"")
        assert {number for number, reference in weak.items() if reference() is not None} == set()
    assert (pub.acked, pub.failed) == (1001, 0)


async def test_a_future_that_nobody_keeps_is_used_again(js: JetStream) -> None:
    await make_stream(js)
    async with js.publisher() as pub:
        ignored = {id(pub.publish("orders.new", data)) for data in numbered(50)}
        assert len(ignored) == 1
        future = pub.publish("orders.new")
        assert (await future).sequence == 51
        assert pub.publish("orders.new") is not future


async def test_messages_are_stored_in_the_order_of_the_calls(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher(max_pending=7) as pub:
        for number, data in enumerate(numbered(500)):
            if number % 3:
                pub.publish("orders.new", data)
            else:
                await pub.send("orders.new", data)
    assert await stored(stream) == list(numbered(500))


async def test_leaving_the_context_waits_for_all_acknowledgements(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher() as pub:
        for data in numbered(10_000):
            pub.publish("orders.new", data)
    assert pub.acked == 10_000
    assert (await stream.info()).state.messages == 10_000


async def test_a_future_need_not_be_awaited_and_flush_is_enough(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher() as pub:
        pub.publish("orders.new", b"one")
        await pub.flush()
        assert await stored(stream) == [b"one"]
        await pub.flush()  # nothing to do


async def test_messages_without_an_id_get_one_each_that_no_other_publisher_uses(js: JetStream) -> None:
    stream = await make_stream(js)
    for _ in range(2):
        async with js.publisher() as pub:
            for data in numbered(3):
                pub.publish("orders.new", data)
        assert pub.duplicates == 0
    ids = [(await stream.get_message(number)).headers["Nats-Msg-Id"] for number in range(1, 7)]
    assert len(set(ids)) == 6


async def test_ids_of_the_user_are_used_and_duplicates_counted(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher() as pub:
        pub.publish("orders.new", b"one", msg_id="a1")
        again = pub.publish("orders.new", b"again", msg_id="a1")
        pub.publish("orders.new", b"header", headers={"Nats-Msg-Id": "a1"})
        await pub.send("orders.new", b"two", msg_id="a2", headers={"k": "v"})
    assert (await again).duplicate
    assert (pub.acked, pub.duplicates) == (4, 2)
    assert await stored(stream) == [b"one", b"two"]
    assert (await stream.get_message(2)).headers["k"] == "v"


async def test_many_tasks_send_at_once_each_in_its_order(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher(max_pending=5) as pub:

        async def write(writer: str) -> None:
            for number in range(50):
                await pub.send("orders.new", f"{writer}{number:03}".encode())

        await asyncio.gather(*map(write, "abcd"))
    found = await stored(stream)
    for writer in b"abcd":
        mine = [data for data in found if data[0] == writer]
        assert mine == sorted(mine)
        assert len(mine) == 50


async def test_large_messages_go_through_a_small_outbox(server: Server) -> None:
    async with await jetspark.connect(server.url, pending_size=2_000_000) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        async with js.publisher() as pub:
            for _ in range(40):
                await pub.send("orders.new", bytes(900_000))
            for _ in range(40):
                pub.publish("orders.new", bytes(900_000))
        assert (await stream.info()).state.messages == 80


# --- expectations and refusals


async def test_expectations_that_hold_and_those_that_do_not(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher() as pub:
        good = [
            pub.publish("orders.a", b"1", expected_last_sequence=0, msg_id="a1"),
            pub.publish("orders.a", b"2", expected_last_msg_id="a1", expected_stream="ORDERS"),
            pub.publish("orders.a", b"3", expected_last_subject_sequence=2),
            pub.publish(
                "orders.b",
                b"4",
                expected_last_subject_sequence=3,
                expected_last_subject_sequence_subject="orders.a",
            ),
        ]
        bad = {
            pub.publish("orders.a", expected_last_sequence=1): WrongLastSequence,
            pub.publish("orders.a", expected_last_subject_sequence=1): WrongLastSequence,
            pub.publish("orders.a", expected_last_msg_id="no"): WrongLastMsgId,
            pub.publish("orders.a", expected_stream="OTHER"): APIError,
            pub.publish("orders.a", ttl=5): APIError,
        }
        with pytest.raises(PublishError, match="5 messages were not acknowledged"):
            await pub.flush()
        assert [(await future).sequence for future in good] == [1, 2, 3, 4]
        for future, error in bad.items():
            assert type(future.exception()) is error
    assert len(await stored(stream)) == 4


async def test_flush_tells_how_many_failed_and_why_and_says_it_once(js: JetStream) -> None:
    await make_stream(js, max_msgs=2, discard="new")
    async with js.publisher() as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(5)]
        with pytest.raises(PublishError, match=r"3 messages.*maximum messages exceeded") as raised:
            await pub.flush()
        assert raised.value.failed == 3
        assert isinstance(raised.value.__cause__, StreamFull)
        assert raised.value.hint == raised.value.__cause__.hint
        await pub.flush()
    assert [future.exception() is None for future in futures] == [True, True, False, False, False]
    assert (pub.acked, pub.failed, pub.pending) == (2, 3, 0)


async def test_leaving_the_context_tells_what_failed(js: JetStream) -> None:
    await make_stream(js, max_msgs=1, discard="new")
    pub = js.publisher()
    await pub.__aenter__()
    pub.publish("orders.new")
    pub.publish("orders.new")
    with pytest.raises(PublishError, match="1 message was not"):
        await pub.__aexit__(None, None, None)


async def test_one_message_that_is_refused_does_not_stop_the_others(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher(max_pending=2) as pub:
        futures = [
            pub.publish("orders.new", b"%d" % number, expected_stream="OTHER" if number % 2 else None)
            for number in range(10)
        ]
        with pytest.raises(PublishError):
            await pub.flush()
    assert [isinstance(future.exception(), APIError) for future in futures] == [False, True] * 5
    assert await stored(stream) == [b"0", b"2", b"4", b"6", b"8"]


async def test_messages_without_a_stream_fail_soon_and_the_others_go_on(js: JetStream) -> None:
    stream = await make_stream(js)
    async with js.publisher(timeout=3600) as pub:
        futures = [pub.publish(subject, b"1") for subject in ("orders.a", "order.b", "orders.c", "order.b")]
        with pytest.raises(PublishError, match=r"2 messages.*'order\.b'"):
            await pub.flush()
        assert isinstance(futures[1].exception(), NoStreamForSubject)
        assert (await futures[0]).sequence == 1
        assert (await futures[2]).sequence == 2
        await pub.send("orders.d", b"1")
    assert len(await stored(stream)) == 3


async def test_without_jetstream_everything_fails_soon() -> None:
    async with Server(jetstream=False) as server, await jetspark.connect(server.url) as nc:
        async with JetStream(nc).publisher() as pub:
            futures = [pub.publish(f"orders.{number}") for number in range(100)]
            with pytest.raises(PublishError, match="100 messages"):
                await pub.flush(LONG)
        assert {type(future.exception()) for future in futures} == {JetStreamNotEnabled}


async def test_what_is_not_permitted_fails_and_the_others_go_on() -> None:
    config = """authorization { users = [
        { user: u, password: p, permissions: { publish: { deny: ["orders.secret"] } } } ] }"""
    with run(config=config) as server:
        async with await jetspark.connect(server.url, user="u", password="p") as nc:
            js = JetStream(nc)
            await make_stream(js)
            async with js.publisher() as pub:
                good = pub.publish("orders.a")
                bad = [pub.publish("orders.secret") for _ in range(3)]
                after = pub.publish("orders.b")
                with pytest.raises(PublishError, match="3 messages"):
                    await pub.flush(LONG)
            assert (await good).sequence == 1
            assert (await after).sequence == 2
            assert {type(future.exception()) for future in bad} == {PermissionsViolation}


async def test_when_the_inbox_is_not_permitted_everything_fails_with_that() -> None:
    config = """authorization { users = [
        { user: u, password: p, permissions: { subscribe: ["mine.>"] } } ] }"""
    with run(config=config) as server:
        async with await jetspark.connect(server.url, user="u", password="p") as nc:
            pub = JetStream(nc).publisher()
            future = pub.publish("orders.a")
            with pytest.raises(PermissionsViolation):
                await asyncio.wait_for(future, LONG)
            with pytest.raises(PermissionsViolation):
                pub.publish("orders.a")
            with pytest.raises(PublishError):
                await pub.close()


@pytest.mark.parametrize(
    ("subject", "arguments"),
    [
        ("orders.*", {}),
        ("", {}),
        ("orders.new", {"data": "text"}),
        ("orders.new", {"msg_id": "a\r\nb"}),
        ("orders.new", {"msg_id": "a", "headers": {"Nats-Msg-Id": "b"}}),
        ("orders.new", {"expected_last_sequence": -1}),
        ("orders.new", {"headers": {"k": "a\nb"}}),
    ],
    ids=str,
)
async def test_a_bad_argument_is_refused_and_nothing_is_taken(
    js: JetStream, subject: str, arguments: dict[str, Any]
) -> None:
    await make_stream(js)
    async with js.publisher() as pub:
        with pytest.raises(UsageError):
            pub.publish(subject, **arguments)
        with pytest.raises(UsageError):
            await pub.send(subject, **arguments)
        assert pub.pending == 0
        assert (await pub.publish("orders.new", untyped(bytearray(b"x")))).sequence == 1


async def test_a_message_over_max_payload_is_refused_and_the_connection_stays(js: JetStream) -> None:
    await make_stream(js)
    async with js.publisher() as pub:
        with pytest.raises(MaxPayloadError):
            pub.publish("orders.new", bytes(js.connection.max_payload))
        assert (await pub.publish("orders.new")).sequence == 1
    assert js.connection.statistics.reconnects == 0


@for_each(
    ("option", "value"),
    [
        ("max_pending", 0),
        ("max_pending", 1.5),
        ("timeout", 0),
        ("ack_timeout", -1.0),
        ("max_buffered_bytes", -1),
    ],
)
async def test_a_bad_option_is_named(js: JetStream, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        js.publisher(**{option: value})


# --- the window


@pytest.mark.parametrize("how", ["publish", "send"])
@pytest.mark.parametrize("window", [1, 2, 10])
async def test_no_more_than_the_window_is_under_way(
    scripted: tuple[ScriptedStream, JetStream], how: str, window: int
) -> None:
    stream, js = scripted
    async with js.publisher(window) as pub:

        async def publish_all() -> None:
            for data in numbered(100):
                if how == "send":
                    await pub.send("orders.new", data)
                else:
                    pub.publish("orders.new", data)

        publishing = asyncio.create_task(publish_all())
        for count in range(1, 101):
            await came(stream, min(window + count - 1, 100))
            stream.acknowledge(1)
        await publishing
    assert stream.most_unanswered == window
    assert stream.data == list(numbered(100))


async def test_a_cancelled_send_has_published_nothing(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    async with js.publisher(1) as pub:
        await pub.send("orders.new", b"1")
        waiting = asyncio.create_task(pub.send("orders.new", b"2"))
        await came(stream, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stream.acknowledge()
        await pub.flush()
        stream.on_message = lambda _: stream.acknowledge()
        await pub.send("orders.new", b"3")
    assert stream.data == [b"1", b"3"]
    assert pub.acked == 2


async def test_a_send_without_room_times_out(server: Server) -> None:
    watch = Watch()
    async with (
        await jetspark.connect(server.url, **watch.listeners) as nc,
        JetStream(nc).publisher(timeout=0.2) as pub,
    ):
        server.kill()
        await watch.until(Event.DISCONNECTED)
        with pytest.raises(Timeout, match="no room"):
            await pub.send("orders.new", b"1")
        assert pub.pending == 0


async def test_what_does_not_fit_into_the_local_queue_is_refused(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(1, max_buffered_bytes=3000) as pub:
        pub.publish("orders.new", bytes(1000))
        pub.publish("orders.new", bytes(1000))
        pub.publish("orders.new", bytes(1000))
        with pytest.raises(OutboundBufferFull, match="send"):
            pub.publish("orders.new", bytes(1000))
        assert pub.pending == 3
        stream.on_message = lambda _: stream.acknowledge()
        await came(stream, 1)
        stream.acknowledge()
    assert (len(stream.received), pub.acked) == (3, 3)


async def test_sending_much_lets_the_loop_turn(js: JetStream) -> None:
    await make_stream(js)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with js.publisher(1_000_000) as pub:
        counting = asyncio.create_task(count())
        for _ in range(5000):
            await pub.send("orders.new")
        assert turns > 10
        counting.cancel()


async def test_flush_waits_for_what_was_published_before_and_not_for_more(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(2) as pub:
        for data in numbered(3):
            pub.publish("orders.new", data)
        flushing = asyncio.create_task(pub.flush())
        await came(stream, 2)
        pub.publish("orders.new", b"later")
        stream.acknowledge(2)
        await came(stream, 4)
        assert not flushing.done()
        stream.acknowledge(1)
        await flushing
        assert pub.pending == 1
        with pytest.raises(Timeout, match="1 message"):
            await pub.flush(0.05)
        stream.acknowledge()


# --- ending


async def test_an_exception_in_the_body_waits_for_acknowledgements_and_goes_on(js: JetStream) -> None:
    stream = await make_stream(js, max_msgs=1, discard="new")
    pub = js.publisher()

    async def body() -> None:
        async with pub:
            pub.publish("orders.new", b"1")
            pub.publish("orders.new", b"2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        await body()
    assert (pub.acked, pub.failed) == (1, 1)
    assert await stored(stream) == [b"1"]
    assert "1 message was not acknowledged" in raised.value.__notes__[0]


async def test_a_cancelled_body_does_not_wait(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    futures = []

    async def body() -> None:
        async with js.publisher() as pub:
            futures.append(pub.publish("orders.new"))
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await came(stream, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ConnectionClosed, match=r"before the message on .* was acknowledged"):
        await futures[0]


async def test_closing_the_connection_fails_everything_under_way_and_waiting(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    pub = js.publisher(2)
    futures = [pub.publish("orders.new", data) for data in numbered(5)]
    await came(stream, 2)
    sending = asyncio.create_task(pub.send("orders.new"))
    await asyncio.sleep(0)
    await js.connection.close()
    assert {type(future.exception()) for future in futures} == {ConnectionClosed}
    with pytest.raises(ConnectionClosed):
        await sending
    with pytest.raises(ConnectionClosed):
        pub.publish("orders.new")
    with pytest.raises(PublishError, match="5 messages"):
        await pub.close()
    with pytest.raises(ConnectionClosed):
        js.publisher()


async def test_a_draining_connection_takes_nothing_new(nc: Connection, js: JetStream) -> None:
    await make_stream(js)
    async with js.publisher() as pub:
        await pub.publish("orders.new")
        draining = asyncio.create_task(nc.drain())
        await asyncio.sleep(0)
        with pytest.raises(ConnectionDraining):
            pub.publish("orders.new")
        await draining


async def test_a_closed_publisher_takes_nothing_and_has_released_its_inbox(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.acknowledge()
    async with js.publisher() as pub:
        await pub.publish("orders.new")
    await pub.close()
    with pytest.raises(ConnectionClosed, match="the publisher is closed"):
        pub.publish("orders.new")
    with pytest.raises(ConnectionClosed):
        await pub.send("orders.new")
    await js.connection.flush()
    assert js.connection.session.receivers == []
    assert pub.acked == 1


async def test_the_inbox_is_unsubscribed_on_the_server() -> None:
    async with ScriptedServer(info={"jetstream": True}) as server:
        stream = ScriptedStream(server)
        stream.on_message = lambda _: stream.acknowledge()
        async with await jetspark.connect(server.url) as nc:
            peer = await server.peer()
            async with JetStream(nc).publisher() as pub:
                await pub.publish("orders.new")
                assert len(peer.subscriptions) == 1
            await peer.expect(UnsubFrame)
            assert peer.subscriptions == {}


async def test_a_future_that_the_user_cancels_harms_nobody(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher() as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(3)]
        await came(stream, 3)
        futures[0].cancel()
        futures[1].cancel()
        stream.acknowledge(1)
        stream.refuse(1, err_code=10077, text="maximum messages exceeded")
        stream.acknowledge()
        with pytest.raises(PublishError, match="1 message"):
            await pub.flush()
    assert (pub.acked, pub.failed) == (2, 1)


async def test_no_task_is_left_behind(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    before = asyncio.all_tasks()
    stream.on_message = lambda _: stream.nobody()
    pub = js.publisher(timeout=0.3)
    pub.publish("orders.new")
    with pytest.raises(PublishError):
        await pub.close()
    await eventually(lambda: asyncio.all_tasks() <= before, "the end of all tasks")


async def test_the_repr_tells_the_counts(js: JetStream) -> None:
    await make_stream(js)
    async with js.publisher() as pub:
        pub.publish("orders.new")
        assert repr(pub) == "<Publisher 1 pending, 0 acknowledged, 0 failed>"
