"""The windowed publisher when nobody answers, answers are lost, or the connection breaks."""

from __future__ import annotations

import asyncio

import pytest

import jetspark
from jetspark import (
    Event,
    InsufficientResources,
    MaxPayloadError,
    PublishError,
    Timeout,
    WrongLastSequence,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from jetspark.wire import PubFrame
from tests.support.proxy import TCPProxy
from tests.support.publishing import (
    ScriptedStream,
    came,
    lose_acknowledgements,
    make_stream,
    numbered,
    stored,
)
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch, eventually

LONG = 20.0  # seconds; only a hang takes so long

pytestmark = pytest.mark.usefixtures("unhandled")


async def test_after_nobody_answered_newer_messages_wait_and_the_failed_go_first_in_order(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(4) as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(6)]
        await came(stream, 4)
        stream.acknowledge(1)  # 1, so 5 is sent
        await came(stream, 5)
        stream.nobody(2)  # 2 and 3; what is under way is awaited
        await asyncio.sleep(0.05)
        assert stream.data == [b"1", b"2", b"3", b"4", b"5"]
        stream.acknowledge(1)  # 4
        stream.nobody(1)  # 5
        await came(stream, 6)
        assert stream.data[5:] == [b"2"]  # alone
        stream.acknowledge(1)
        await came(stream, 9)
        assert stream.data[6:] == [b"3", b"5", b"6"]
        stream.acknowledge()
        await asyncio.gather(*futures)
    ids = dict(zip(stream.data[:5], stream.ids[:5], strict=True))
    assert [ids[data] for data in stream.data[5:8]] == stream.ids[5:8]


async def test_while_nobody_answers_one_message_is_tried_until_somebody_does(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted

    def answer(_: PubFrame) -> None:
        if len(stream.received) <= 12:
            stream.nobody()
        else:
            stream.acknowledge()

    stream.on_message = answer
    async with js.publisher() as pub:
        for data in numbered(10):
            pub.publish("orders.new", data)
        await pub.flush(LONG)
    assert stream.data == [*numbered(10), b"1", b"1", b"1", *list(numbered(10))[1:]]
    assert pub.acked == 10


@pytest.mark.parametrize("err_code", [10167, 10008, 10158])
async def test_a_server_that_has_too_much_to_do_is_asked_again(
    scripted: tuple[ScriptedStream, JetStream], err_code: int
) -> None:
    stream, js = scripted

    def answer(_: PubFrame) -> None:
        if len(stream.received) == 1:
            stream.refuse(err_code=err_code, code=429)
        else:
            stream.acknowledge()

    stream.on_message = answer
    async with js.publisher() as pub:
        assert (await pub.publish("orders.new")).sequence == 1
    assert len(stream.received) == 2


async def test_a_server_without_storage_is_not_asked_again(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.refuse(err_code=10023, code=503, text="insufficient resources")
    pub = js.publisher()
    with pytest.raises(InsufficientResources):
        await pub.publish("orders.new")
    with pytest.raises(PublishError):
        await pub.close()
    assert len(stream.received) == 1


async def test_without_an_answer_it_is_published_again_under_the_same_id(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(ack_timeout=5) as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(3)]
        await came(stream, 3)
        stream.lose()
        await came(stream, 4)
        stream.acknowledge()
        await came(stream, 6)
        stream.acknowledge()
        await asyncio.gather(*futures)
    assert stream.data == [*numbered(3), *numbered(3)]
    assert stream.ids[:3] == stream.ids[3:]
    assert pub.acked == 3


async def test_an_answer_to_the_first_try_that_comes_late_is_ignored_or_taken_but_never_counted_twice(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(ack_timeout=0.1) as pub:
        future = pub.publish("orders.new", b"1")
        await came(stream, 2)
        stream.acknowledge()  # both tries
        assert (await future).sequence == 1
        await pub.flush()
    assert (pub.acked, pub.failed, pub.pending) == (1, 0, 0)


async def test_a_slow_server_is_not_sent_everything_again(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(ack_timeout=5) as pub:
        for data in numbered(12):
            pub.publish("orders.new", data)
        await came(stream, 12)
        for _ in range(12):  # longer than the last message may wait, were it alone
            await asyncio.sleep(0.5)
            stream.acknowledge(1)
        await pub.flush(LONG)
    assert len(stream.received) == 12


async def test_one_lost_answer_among_many_is_found(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    async with js.publisher(ack_timeout=5) as pub:
        future = pub.publish("orders.new", b"lost")
        await came(stream, 1)
        stream.lose()
        stream.on_message = lambda _: stream.acknowledge()
        while not future.done():
            await pub.send("orders.new", b"other")
            await asyncio.sleep(0.01)
    assert stream.data.count(b"lost") == 2
    assert len(stream.received) == pub.acked + 1


async def test_a_message_that_is_lost_right_after_a_recovery_is_published_again(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(timeout=30.0, ack_timeout=0.2) as pub:
        in_flight = pub._in_flight

        def look() -> None:
            """What the timer does, at the moment when everything waits for the recovery to go on."""
            assert in_flight._timer is not None
            in_flight._timer.cancel()
            in_flight._expire()

        first = pub.publish("orders.new", b"1")
        first.add_done_callback(lambda _: look())
        await came(stream, 1)
        stream.nobody()
        await eventually(lambda: not in_flight.open, "the recovery")
        pub.publish("orders.new", b"2")
        await came(stream, 2)
        stream.acknowledge()
        await came(stream, 3)
        stream.lose()
        await came(stream, 4)
        stream.acknowledge()
    assert stream.data == [b"1", b"1", b"2", b"2"]


@pytest.mark.parametrize("refused", [True, False])
async def test_the_question_whether_it_is_stored_is_repeated_too(
    scripted: tuple[ScriptedStream, JetStream], refused: bool
) -> None:
    stream, js = scripted
    async with js.publisher(timeout=30.0, ack_timeout=0.2) as pub:
        future = pub.publish("orders.new", b"1", expected_last_sequence=0)
        await came(stream, 1)
        stream.lose()
        await came(stream, 2)
        stream.refuse(err_code=10071, text="wrong last sequence: 1")
        await came(stream, 3)
        if refused:
            stream.nobody()
        else:
            stream.lose()
        await came(stream, 4)
        stream.acknowledge()
        await future
    assert stream.data == [b"1", b"1", b"", b""]


async def test_a_late_refusal_of_an_earlier_attempt_is_not_the_answer_to_the_question(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(timeout=30.0, ack_timeout=0.2) as pub:
        future = pub.publish("orders.new", b"1", expected_last_sequence=0)
        await came(stream, 3)
        _, late, last = stream.unanswered[:3]  # The first was stored, and its acknowledgement lost.
        stream.unanswered = [last]
        stream.refuse(err_code=10071, text="wrong last sequence: 1")
        await eventually(lambda: b"" in stream.data, "the question")
        stream.unanswered.insert(0, late)
        stream.refuse(1, err_code=10071, text="wrong last sequence: 1")
        stream.on_message = lambda _: stream.acknowledge()
        stream.acknowledge()
        await future


async def test_a_message_fails_after_its_timeout_and_the_hint_has_its_id(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    pub = js.publisher(1, timeout=0.4, ack_timeout=0.15)
    futures = [pub.publish("orders.new", b"1", msg_id="a1"), pub.publish("orders.new", b"2", msg_id="a2")]
    with pytest.raises(Timeout, match=r"within 0\.4 s.*'a1'"):
        await futures[0]
    with pytest.raises(Timeout, match="'a2'"):
        await futures[1]
    with pytest.raises(PublishError, match="2 messages"):
        await pub.close()
    assert set(stream.data) == {b"1"}


async def test_while_nobody_answers_a_message_fails_after_its_timeout(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.nobody()
    async with js.publisher(timeout=0.5) as pub:
        for data in numbered(5):
            pub.publish("orders.new", data)
        with pytest.raises(PublishError, match="5 messages"):
            await pub.flush(LONG)


# --- when the connection breaks


async def test_after_a_reconnect_what_was_not_acknowledged_goes_out_again_in_order(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher(4) as pub:
        futures = [pub.publish("orders.new", data) for data in numbered(6)]
        await came(stream, 4)
        stream.acknowledge(1)
        await came(stream, 5)
        peer, _ = stream.unanswered[0]
        stream.lose()
        peer.abort()
        await came(stream, 6)
        assert stream.data[5:] == [b"2"]  # alone, until it is answered
        stream.on_message = lambda _: stream.acknowledge()
        stream.acknowledge()
        await asyncio.gather(*futures)
    assert stream.data[5:] == [b"2", b"3", b"4", b"5", b"6"]
    ids = dict(zip(stream.data[:5], stream.ids[:5], strict=True))
    assert [ids[data] for data in stream.data[5:9]] == stream.ids[5:9]


async def test_while_disconnected_messages_wait_and_nothing_is_lost(server: Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, storage="file")
        async with js.publisher() as pub:
            await pub.send("orders.new", b"before")
            await pub.flush()
            server.kill()
            await watch.until(Event.DISCONNECTED)
            future = pub.publish("orders.new", b"meanwhile")
            sending = asyncio.create_task(pub.send("orders.new", b"after"))
            await asyncio.to_thread(server.start)
            await future
            await sending
        assert await stored(stream) == [b"before", b"meanwhile", b"after"]
        assert pub.duplicates == 0


async def test_a_publisher_made_while_disconnected_begins_with_the_connection(server: Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, storage="file")
        server.kill()
        await watch.until(Event.DISCONNECTED)
        async with js.publisher() as pub:
            for data in numbered(10):
                pub.publish("orders.new", data)
            await asyncio.to_thread(server.start)
        assert await stored(stream) == list(numbered(10))


async def test_what_was_stored_before_a_break_is_not_refused_for_its_own_sequence(
    server: Server, proxy: TCPProxy
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)

        def lost(answer: bytes) -> bool:
            if b'"seq":3' in answer:
                proxy.server_to_client = None
                proxy.cut()
            return b'"seq":1' not in answer

        lose_acknowledgements(proxy, lost)
        async with js.publisher() as pub:
            futures = [
                pub.publish("orders.new", data, expected_last_sequence=number)
                for number, data in enumerate(numbered(3))
            ]
            wrong = pub.publish("orders.new", expected_last_sequence=1)
            with pytest.raises(PublishError, match="1 message"):
                await pub.flush(LONG)
        assert [(await future).sequence for future in futures] == [1, 2, 3]
        assert type(wrong.exception()) is WrongLastSequence
        assert await stored(stream) == list(numbered(3))


async def test_a_message_that_the_next_server_finds_too_large_fails_alone() -> None:
    async with ScriptedServer(info={"jetstream": True}) as server:
        stream = ScriptedStream(server)
        async with await jetspark.connect(server.url) as nc, JetStream(nc).publisher() as pub:
            large = pub.publish("orders.new", bytes(500_000))
            small = pub.publish("orders.new", b"small")
            await came(stream, 2)
            server.info["max_payload"] = 100_000
            stream.lose()
            stream.on_message = lambda _: stream.acknowledge()
            (await server.peer()).abort()
            assert (await small).sequence == 1
            with pytest.raises(MaxPayloadError):
                await large
            with pytest.raises(PublishError):
                await pub.flush()
