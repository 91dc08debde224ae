"""Push subscriptions and a server that says what the test wants: what the real one cannot be made to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jetspark import (
    APIError,
    ConsumerDeleted,
    ConsumerMismatch,
    DuplicateSubscription,
    Error,
    Event,
    ExceededLimit,
    JetStreamMsg,
    MessageGap,
    NoResponders,
    NotJetStreamMessage,
    StatusError,
    SubscriptionClosed,
    Timeout,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.wire import PubFrame, SubFrame, UnsubFrame
from tests.support.scripted_jetstream import soon
from tests.support.scripted_push import ScriptedPush
from tests.support.watch import Watch, eventually

LONG = 30.0


@pytest.fixture
async def server() -> AsyncIterator[ScriptedPush]:
    async with ScriptedPush() as running:
        yield running


@pytest.fixture
async def js(server: ScriptedPush, watch: Watch) -> AsyncIterator[JetStream]:
    async with connect(server.url, reconnect_wait=0.01, **watch.listeners) as nc:
        yield nc.jetstream()


# --- how it is created


async def test_the_subscription_comes_before_the_consumer(server: ScriptedPush, js: JetStream) -> None:
    subscription = await js.subscribe("s.>", durable="D")
    frames = server.peer_now.received
    subscribed = next(
        index
        for index, frame in enumerate(frames)
        if isinstance(frame, SubFrame) and frame.subject.decode() == subscription.subject
    )
    created = next(
        index
        for index, frame in enumerate(frames)
        if isinstance(frame, PubFrame) and b"CONSUMER.CREATE" in frame.subject
    )
    assert subscribed < created


async def test_the_stream_is_asked_for_by_its_subject(server: ScriptedPush, js: JetStream) -> None:
    await js.subscribe("s.>")
    asked = next(f for f in server.peer_now.all(PubFrame) if f.subject == b"$JS.API.STREAM.NAMES")
    assert b'"subject":"s.>"' in asked.data


@pytest.mark.parametrize(
    ("version", "options", "subject"),
    [
        ("2.15.1", {"durable": "D"}, "$JS.API.CONSUMER.CREATE.S.D.s.>"),
        ("2.9.0", {"durable": "D"}, "$JS.API.CONSUMER.CREATE.S.D.s.>"),
        ("2.8.4", {"durable": "D"}, "$JS.API.CONSUMER.DURABLE.CREATE.S.D"),
        ("2.3.5-beta.1", {"durable": "D"}, "$JS.API.CONSUMER.DURABLE.CREATE.S.D"),
        ("2.8.4", {}, "$JS.API.CONSUMER.CREATE.S"),
        ("2.8.4", {"queue": "Q"}, "$JS.API.CONSUMER.DURABLE.CREATE.S.Q"),
        ("built by hand", {"durable": "D"}, "$JS.API.CONSUMER.CREATE.S.D.s.>"),
    ],
)
async def test_a_consumer_is_created_where_the_server_expects_it(
    version: str, options: dict[str, Any], subject: str
) -> None:
    async with ScriptedPush(info={"version": version}) as server, connect(server.url) as nc:
        subscription = await nc.jetstream().subscribe("s.>", **options)
        [(asked, body)] = server.created
        assert asked == subject
        assert body["stream_name"] == "S"
        if version.startswith(("2.8", "2.3")):
            assert "name" not in body["config"]
            assert "action" not in body
        assert subscription.consumer_name == server.name


async def test_an_ephemeral_consumer_of_a_current_server_is_named_by_us(
    js: JetStream, server: ScriptedPush
) -> None:
    subscription = await js.subscribe("s.>")
    [(subject, body)] = server.created
    assert subject == f"$JS.API.CONSUMER.CREATE.S.{subscription.consumer_name}.s.>"
    assert body["config"]["name"] == subscription.consumer_name
    assert "durable_name" not in body["config"]


async def test_a_name_without_durable_needs_a_server_that_knows_names() -> None:
    from jetspark import ConsumerConfig

    async with ScriptedPush(info={"version": "2.8.4"}) as server, connect(server.url) as nc:
        with pytest.raises(UsageError, match=r"needs server 2\.9"):
            await nc.jetstream().subscribe("s.>", config=ConsumerConfig(name="N"))


@pytest.mark.parametrize("version", ["2.15.1", "2.8.4"])
async def test_after_a_lost_race_to_create_the_existing_consumer_is_used_at_its_deliver_subject(
    version: str,
) -> None:
    async with ScriptedPush(info={"version": version}) as server, connect(server.url) as nc:
        server.consumers["Q"] = {
            "durable_name": "Q",
            "ack_policy": "explicit",
            "deliver_subject": "theirs",
            "deliver_group": "Q",
            "filter_subject": "s.>",
        }
        server.bound.add("Q")
        server.hidden.add("Q")
        subscription = await nc.jetstream().subscribe("s.>", "Q")
        assert len(server.created) == 1
        await nc.flush()
        peer = server.peer_now
        subs = [frame for frame in peer.all(SubFrame) if frame.queue == b"Q"]
        assert [frame.subject for frame in subs] == [
            server.created[0][1]["config"]["deliver_subject"].encode(),
            b"theirs",
        ]
        ended = [frame.sid for frame in peer.all(UnsubFrame)]
        assert subs[0].sid in ended
        assert subs[1].sid not in ended
        server.send(server.message(b"one"))
        assert (await subscription.next(LONG)).data == b"one"
        await subscription.unsubscribe()
        assert server.deleted.empty()


@pytest.mark.parametrize(
    ("options", "there", "error"),
    [
        ({"durable": "Q"}, {}, DuplicateSubscription),
        ({"durable": "Q"}, {"deliver_group": "Q"}, ConsumerMismatch),
        ({"queue": "Q"}, {}, ConsumerMismatch),
        ({"queue": "Q"}, {"deliver_group": "other"}, ConsumerMismatch),
        ({"queue": "Q"}, {"deliver_group": "Q", "filter_subject": "other"}, ConsumerMismatch),
    ],
)
async def test_after_a_lost_race_to_create_the_existing_consumer_is_checked(
    server: ScriptedPush, js: JetStream, options: dict[str, Any], there: dict[str, Any], error: type[Error]
) -> None:
    server.consumers["Q"] = {
        "durable_name": "Q",
        "ack_policy": "explicit",
        "deliver_subject": "theirs",
        "filter_subject": "s.>",
        **there,
    }
    server.bound.add("Q")
    server.hidden.add("Q")
    with pytest.raises(error):
        await js.subscribe("s.>", **options)
    await js.connection.flush()
    assert len(server.created) == 1
    inbox = server.created[0][1]["config"]["deliver_subject"].encode()
    assert inbox not in [frame.subject for frame in server.peer_now.subscriptions.values()]
    assert server.deleted.empty()


# --- statuses


async def test_statuses_never_reach_the_user(server: ScriptedPush, js: JetStream, watch: Watch) -> None:
    subscription = await js.subscribe("s.>")
    server.send(
        server.heartbeat(0),
        server.message(b"one"),
        server.status("404 No Messages"),
        server.status("408 Request Timeout"),
        server.flow_control("$JS.FC.1"),
        server.message(b"two"),
        server.heartbeat(2),
    )
    assert [(await subscription.next(LONG)).data for _ in range(2)] == [b"one", b"two"]
    with pytest.raises(Timeout):
        await subscription.next(0.05)
    assert subscription.received == 2
    assert watch.count(Event.ERROR) == 0


STATUSES = [
    pytest.param("409 Exceeded MaxAckPending", ExceededLimit, id="409"),
    pytest.param("503 No Responders", NoResponders, id="503"),
    pytest.param("777 Whatever", StatusError, id="unknown"),
    pytest.param("500", StatusError, id="without words"),
]


@pytest.mark.parametrize(("line", "error"), STATUSES)
@pytest.mark.parametrize("how", ["next", "iterate"])
async def test_an_error_status_is_raised_at_its_place(
    server: ScriptedPush, js: JetStream, line: str, error: type[Error], how: str
) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"one"), server.status(line), server.message(b"two"))

    async def take() -> JetStreamMsg:
        return await (subscription.next(LONG) if how == "next" else anext(subscription))

    assert (await take()).data == b"one"
    with pytest.raises(error):
        await take()
    assert (await take()).data == b"two"
    assert subscription.active


async def test_a_flood_of_error_statuses_is_cut_short(server: ScriptedPush, js: JetStream) -> None:
    subscription = await js.subscribe("s.>")
    server.send(*[server.status("500 Who Knows")] * 1000, server.message(b"one"))
    await eventually(lambda: subscription.pending_msgs == 1, "the message behind them")
    errors = 0
    while True:
        try:
            assert (await subscription.next(LONG)).data == b"one"
            break
        except StatusError:
            errors += 1
    assert errors == 64


@pytest.mark.parametrize(("line", "error"), STATUSES)
async def test_an_error_status_reaches_the_error_callback_when_there_is_a_callback(
    server: ScriptedPush, js: JetStream, watch: Watch, line: str, error: type[Error]
) -> None:
    got: list[bytes] = []
    await js.subscribe("s.>", callback=lambda message: got.append(message.data))
    server.send(server.message(b"one"), server.status(line), server.message(b"two"))
    assert isinstance(await watch.until(Event.ERROR), error)
    await eventually(lambda: got == [b"one", b"two"], "both messages")


async def test_a_deleted_consumer_ends_it_after_what_has_arrived(server: ScriptedPush, js: JetStream) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"one"), server.status("409 Consumer Deleted"))
    assert (await subscription.next(LONG)).data == b"one"
    for _ in range(2):
        with pytest.raises(ConsumerDeleted):
            await subscription.next(LONG)
    assert not subscription.active


async def test_an_invalid_status_is_reported(server: ScriptedPush, js: JetStream, watch: Watch) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.status("fourohfour"), server.message(b"one"))
    assert (await subscription.next(LONG)).data == b"one"
    assert "not a number" in str(await watch.until(Event.ERROR))


async def test_a_message_of_the_stream_may_look_like_a_status(server: ScriptedPush, js: JetStream) -> None:
    """It can be acknowledged; what the server says cannot."""
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"", header=b"NATS/1.0 409 Consumer Deleted\r\n\r\n"))
    message = await subscription.next(LONG)
    assert (message.data, message.headers.status) == (b"", 409)
    assert subscription.active


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "somewhere",
        "$JS.ACK.not.enough",
        "$JS.ACK.S.C.1.x.1.1.0",
        "$JS.ACK.S.OTHER.1.1.1.1.0",
        "$JS.ACK.OTHER.C.1.1.1.1.0",
    ],
)
async def test_a_message_that_the_consumer_did_not_send_is_reported_and_dropped(
    server: ScriptedPush, js: JetStream, watch: Watch, reply: str
) -> None:
    subscription = await js.subscribe("s.>", durable="C")
    server.send(server.message(b"stranger", reply=reply), server.message(b"one", sequence=1))
    assert (await subscription.next(LONG)).data == b"one"
    assert isinstance(await watch.until(Event.ERROR), NotJetStreamMessage)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.S.C.1.1.1.1700000000000000000.0",
        "$JS.ACK._.hash.S.C.1.1.1.1700000000000000000.0",
        "$JS.ACK.hub.hash.S.C.1.1.1.1700000000000000000.0.token",
        "$JS.ACK.hub.hash.S.C.1.1.1.1700000000000000000.0.token.another",
    ],
)
async def test_both_formats_of_acknowledgement_subjects_are_understood(
    server: ScriptedPush, js: JetStream, reply: str
) -> None:
    subscription = await js.subscribe("s.>", durable="C")
    server.send(server.message(b"one", reply=reply))
    message = await subscription.next(LONG)
    metadata = message.metadata
    assert (metadata.stream, metadata.consumer, metadata.sequence.stream) == ("S", "C", 1)
    assert metadata.domain == ("hub" if ".hub." in reply else None)
    message.ack()
    assert await soon(server.acks) == (reply, b"+ACK")


# --- flow control


async def test_nothing_is_answered_but_flow_control_subjects(server: ScriptedPush, js: JetStream) -> None:
    """Whoever knows the deliver subject could make us publish to any subject that we may publish to."""
    subscription = await js.subscribe("s.>")
    server.send(
        server.flow_control("orders.cancel"),
        server.heartbeat(0, stalled="orders.cancel"),
        server.flow_control("$JS.FC.1"),
        server.message(b"one"),
    )
    await subscription.next(LONG)
    assert await server.answered() == "$JS.FC.1"
    assert not [frame for frame in server.peer_now.all(PubFrame) if frame.subject == b"orders.cancel"]


async def test_flow_control_waits_for_the_reader(server: ScriptedPush, js: JetStream) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"one"), server.message(b"two"), server.flow_control("$JS.FC.1"))
    await eventually(lambda: subscription.pending_msgs == 2, "both messages")
    for data in (b"one", b"two"):
        assert (await subscription.next(LONG)).data == data
        await js.connection.flush()
        assert server.answers.empty()
    with pytest.raises(Timeout):
        await subscription.next(0.01)
    assert await server.answered() == "$JS.FC.1"


async def test_a_reader_that_waits_answers_and_gets_the_next_message(
    server: ScriptedPush, js: JetStream
) -> None:
    subscription = await js.subscribe("s.>")
    waiting = asyncio.create_task(subscription.next(LONG))
    await asyncio.sleep(0)
    server.send(server.flow_control("$JS.FC.1"))
    assert await server.answered() == "$JS.FC.1"
    assert not waiting.done()
    server.send(server.message(b"one"))
    assert (await waiting).data == b"one"


async def test_what_is_buffered_behind_flow_control_is_handed_out_by_the_same_call(
    server: ScriptedPush, js: JetStream
) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.flow_control("$JS.FC.1"), server.message(b"one"))
    await eventually(lambda: subscription.pending_msgs == 1, "the message")
    assert server.answers.empty()
    assert (await subscription.next(LONG)).data == b"one"
    assert await server.answered() == "$JS.FC.1"


async def test_flow_control_after_a_message_waits_until_its_callback_returns(
    server: ScriptedPush, js: JetStream
) -> None:
    let_go = asyncio.Event()
    began = asyncio.Event()

    async def handle(message: JetStreamMsg) -> None:
        began.set()
        await let_go.wait()

    await js.subscribe("s.>", callback=handle)
    server.send(server.message(b"one"), server.flow_control("$JS.FC.1"))
    await asyncio.wait_for(began.wait(), LONG)
    await js.connection.flush()
    assert server.answers.empty()
    let_go.set()
    assert await server.answered() == "$JS.FC.1"


async def test_a_repeated_flow_control_subject_is_answered_once(server: ScriptedPush, js: JetStream) -> None:
    await js.subscribe("s.>", callback=lambda message: None)
    server.send(
        server.flow_control("$JS.FC.1"),
        server.heartbeat(0, stalled="$JS.FC.1"),
        server.heartbeat(0, stalled="$JS.FC.1"),
        server.flow_control("$JS.FC.1"),
        server.heartbeat(0, stalled="$JS.FC.2"),
        server.heartbeat(0, stalled="$JS.FC.2"),
        server.flow_control("$JS.FC.3"),
    )
    assert [await server.answered() for _ in range(3)] == ["$JS.FC.1", "$JS.FC.2", "$JS.FC.3"]
    server.send(server.heartbeat(0, stalled="$JS.FC.3"), server.flow_control("$JS.FC.4"))
    assert await server.answered() == "$JS.FC.4"
    answers = [frame for frame in server.peer_now.all(PubFrame) if frame.subject.startswith(b"$JS.FC.")]
    assert all((frame.data, frame.reply) == (b"", b"") for frame in answers)


async def test_a_stalled_consumer_is_answered_when_the_reader_is_there(
    server: ScriptedPush, js: JetStream
) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"one"), server.heartbeat(1, stalled="$JS.FC.1"))
    await eventually(lambda: subscription.pending_msgs == 1, "the message")
    await js.connection.flush()
    assert server.answers.empty()
    await subscription.next(LONG)
    with pytest.raises(Timeout):
        await subscription.next(0.01)
    assert await server.answered() == "$JS.FC.1"


async def test_an_invalid_stalled_header_is_reported_and_not_answered(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    await js.subscribe("s.>", callback=lambda message: None)
    server.send(server.heartbeat(0, stalled="$JS.FC.1 $JS.FC.2"), server.flow_control("$JS.FC.3"))
    assert await server.answered() == "$JS.FC.3"
    assert "Nats-Consumer-Stalled" in str(await watch.until(Event.ERROR))


async def test_after_a_reconnect_a_stalled_consumer_is_answered_again(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    await js.subscribe("s.>", durable="D", callback=lambda message: None)
    server.send(server.flow_control("$JS.FC.1"))
    assert await server.answered() == "$JS.FC.1"
    server.peer_now.abort()
    await watch.until(Event.RECONNECTED)
    await js.connection.flush()
    server.send(server.heartbeat(0, stalled="$JS.FC.1"))
    assert await server.answered() == "$JS.FC.1"


# --- gaps


async def test_gaps_are_seen_among_messages_of_one_read(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(), server.message(skip=2), server.message(), server.message(skip=1))
    for _ in range(4):
        await subscription.next(LONG)
    await watch.until(Event.ERROR, times=2)
    errors = [error for event, error in watch.events if event is Event.ERROR]
    assert [type(error) for error in errors] == [MessageGap, MessageGap]
    assert [(error.expected, error.received) for error in errors] == [(2, 4), (6, 7)]


async def test_the_first_message_of_an_existing_consumer_is_not_a_gap(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    server.consumers["D"] = {"durable_name": "D", "ack_policy": "explicit", "deliver_subject": "there"}
    subscription = await js.subscribe("s.>", durable="D")
    await js.connection.flush()
    server.send(server.message(sequence=500), server.heartbeat(500), server.message(skip=1))
    for _ in range(2):
        await subscription.next(LONG)
    error = await watch.until(Event.ERROR)
    assert (error.expected, error.received) == (501, 502)


# --- deleting


DENIED = {"code": 403, "err_code": 10999, "description": "not today"}


async def test_unsubscribe_raises_the_error_of_deleting(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    subscription = await js.subscribe("s.>", durable="D")
    server.deletion = DENIED
    with pytest.raises(APIError, match="not today"):
        await subscription.unsubscribe()
    assert not subscription.active
    server.deletion = None
    await subscription.unsubscribe()
    await subscription.unsubscribe()
    assert [await soon(server.deleted) for _ in range(2)] == ["D", "D"]
    assert server.deleted.empty()
    assert watch.count(Event.ERROR) == 0


async def test_after_a_drain_the_error_of_deleting_goes_to_the_error_callback(
    server: ScriptedPush, js: JetStream, watch: Watch
) -> None:
    subscription = await js.subscribe("s.>", durable="D", callback=lambda message: None)
    server.deletion = DENIED
    await subscription.drain()
    assert "not today" in str(await watch.until(Event.ERROR))


async def test_a_drain_deletes_when_the_last_callback_has_returned(
    server: ScriptedPush, js: JetStream
) -> None:
    let_go = asyncio.Event()

    async def hold(message: JetStreamMsg) -> None:
        await let_go.wait()

    subscription = await js.subscribe("s.>", callback=hold)
    server.send(server.message(b"one"), server.message(b"two"))
    await eventually(lambda: subscription.received == 2, "both messages")
    draining = asyncio.create_task(subscription.drain())
    await js.connection.flush()
    assert server.deleted.empty()
    let_go.set()
    await draining
    assert await soon(server.deleted) == subscription.consumer_name
    kinds = [
        f.subject for f in server.peer_now.all(PubFrame) if b"ACK" in f.subject or b"DELETE" in f.subject
    ]
    assert [b"DELETE" in kind for kind in kinds] == [False, False, True]


async def test_without_a_callback_a_drain_deletes_when_everything_is_read(
    server: ScriptedPush, js: JetStream
) -> None:
    subscription = await js.subscribe("s.>")
    server.send(server.message(b"one"), server.message(b"two"))
    await eventually(lambda: subscription.pending_msgs == 2, "both messages")
    await subscription.drain()
    async for message in subscription:
        await js.connection.flush()
        assert server.deleted.empty()
        message.ack()
    assert await soon(server.deleted) == subscription.consumer_name
    with pytest.raises(SubscriptionClosed):
        await subscription.next(LONG)


async def test_draining_the_connection_deletes_too(server: ScriptedPush, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        owner = await js.subscribe("s.>", callback=lambda message: None)
        await js.subscribe("s.>", "Q", callback=lambda message: None)
        await nc.drain()
    assert await soon(server.deleted) == owner.consumer_name
    assert server.deleted.empty()
    assert watch.count(Event.ERROR) == 0
