"""Requests: one answer each, or an error that says why there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    Event,
    MaxPayloadError,
    Msg,
    NoResponders,
    NotSent,
    PermissionsViolation,
    Timeout,
    UsageError,
    connect,
)
from jetspark.server import Server, User
from jetspark.wire import PubFrame, encode
from tests.support.cases import for_each
from tests.support.proxy import TCPProxy
from tests.support.raw import RawClient
from tests.support.scripted import Peer, ScriptedServer
from tests.support.watch import Watch, eventually


def waiting(nc: Connection) -> int:
    """How many requests the connection still remembers."""
    return len(nc._requests._waiting) if nc._requests is not None else 0


@pytest.fixture
async def echo(other: Connection, subject: str) -> str:
    """A subject that answers with what it gets."""

    def answer(message: Msg) -> None:
        message.respond(message.data, headers=message.headers)

    await other.subscribe(subject, callback=answer)
    await other.flush()
    return subject


async def test_a_request_returns_the_answer(nc: Connection, echo: str) -> None:
    answer = await nc.request(echo, b"hello", headers={"A": ["1", "2"]})
    assert answer.data == b"hello"
    assert answer.headers.get_all("a") == ["1", "2"]
    assert waiting(nc) == 0


async def test_only_the_first_answer_counts(nc: Connection, other: Connection, subject: str) -> None:
    for _ in range(3):
        await other.subscribe(subject, callback=lambda message: message.respond(b"one of three"))
    await other.flush()
    for _ in range(10):
        assert (await nc.request(subject)).data == b"one of three"
    await nc.flush()
    assert waiting(nc) == 0


async def test_no_responders_fails_at_once(nc: Connection, subject: str) -> None:
    with pytest.raises(NoResponders, match=subject) as caught:
        await nc.request(subject, timeout=3600)
    assert caught.value.hint
    assert waiting(nc) == 0


async def test_an_empty_answer_is_not_mistaken_for_no_responders(nc: Connection, subject: str) -> None:
    await nc.subscribe(subject, callback=lambda message: message.respond(b"", headers={"A": "b"}))
    assert (await nc.request(subject)).headers["A"] == "b"
    await nc.subscribe(f"{subject}.bare", callback=lambda message: message.respond())
    assert (await nc.request(f"{subject}.bare")).data == b""


async def test_timeout_is_raised_when_nobody_answers(nc: Connection, subject: str) -> None:
    await nc.subscribe(subject)
    with pytest.raises(Timeout, match=subject):
        await nc.request(subject, timeout=0.01)
    with pytest.raises(TimeoutError):
        await nc.request(subject, timeout=0)
    assert waiting(nc) == 0


async def test_request_timeout_is_the_default(shared_server: Server, subject: str) -> None:
    async with connect(shared_server.url, request_timeout=0.01) as nc:
        await nc.subscribe(subject)
        with pytest.raises(Timeout, match=r"0\.01 s"):
            await nc.request(subject)


async def test_a_late_answer_is_dropped(nc: Connection, subject: str) -> None:
    requests = await nc.subscribe(subject)
    with pytest.raises(Timeout):
        await nc.request(subject, timeout=0.01)
    await (await requests.next()).respond(b"late")
    await nc.flush()
    await nc.subscribe(f"{subject}.next", callback=lambda message: message.respond(b"in time"))
    assert (await nc.request(f"{subject}.next")).data == b"in time"


async def test_two_thousand_requests_at_once_get_their_own_answers(nc: Connection, echo: str) -> None:
    answers = await asyncio.gather(*(nc.request(echo, b"%d" % number, timeout=30) for number in range(2000)))
    assert [int(answer.data) for answer in answers] == list(range(2000))
    assert waiting(nc) == 0
    assert len(nc.session.receivers) == 1


async def test_answers_in_any_order_are_matched() -> None:
    requests: list[PubFrame] = []

    def collect(peer: Peer, request: PubFrame) -> None:
        requests.append(request)
        if len(requests) == 50:
            for each in reversed(requests):
                peer.answer(each, each.data)

    async with ScriptedServer() as server, connect(server.url) as nc:
        server.on("ask", collect)
        answers = await asyncio.gather(*(nc.request("ask", b"%d" % number) for number in range(50)))
        assert [int(answer.data) for answer in answers] == list(range(50))


async def test_of_the_statuses_only_503_means_that_nobody_listens() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        server.on("nobody", lambda peer, request: peer.answer(request, status="503"))
        server.on("empty", lambda peer, request: peer.answer(request, status="404 No Messages"))
        with pytest.raises(NoResponders, match="nobody"):
            await nc.request("nobody")
        headers = (await nc.request("empty")).headers
        assert (headers.status, headers.description) == (404, "No Messages")


async def test_a_cancelled_request_leaves_nothing_behind(nc: Connection, subject: str) -> None:
    requests = await nc.subscribe(subject)
    asking = asyncio.create_task(nc.request(subject))
    message = await requests.next()
    assert waiting(nc) == 1
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert waiting(nc) == 0
    await message.respond(b"to nobody")
    await nc.flush()


@for_each(
    ("arguments", "error"),
    [
        ({"subject": "a b"}, UsageError),
        ({"subject": "a.*"}, UsageError),
        ({"subject": "a", "data": "text"}, UsageError),
        ({"subject": "a", "headers": {"A": "b\r\nc"}}, UsageError),
        ({"subject": "a", "data": bytes(1024 * 1024 + 1)}, MaxPayloadError),
    ],
)
async def test_a_request_that_is_refused_locally_leaves_nothing_behind(
    nc: Connection, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await nc.request(**arguments)
    assert waiting(nc) == 0


async def test_inboxes_begin_with_the_prefix_that_was_asked_for(
    shared_server: Server, other: Connection, subject: str
) -> None:
    requests = await other.subscribe(subject)
    await other.flush()
    async with connect(shared_server.url, inbox_prefix="my.answers") as nc:
        assert nc.new_inbox().startswith("my.answers.")
        assert nc.new_inbox() != nc.new_inbox()
        asking = asyncio.create_task(nc.request(subject))
        message = await requests.next()
        assert message.reply.startswith("my.answers.")
        await message.respond(b"found")
        assert (await asking).data == b"found"


async def test_a_request_that_close_interrupts_fails_with_connection_closed(
    shared_server: Server, subject: str
) -> None:
    async with connect(shared_server.url) as nc:
        requests = await nc.subscribe(subject)
        asking = asyncio.create_task(nc.request(subject))
        await requests.next()
        await nc.close()
        with pytest.raises(ConnectionClosed):
            await asking


async def test_an_answer_whose_headers_cannot_be_read_does_no_harm(
    nc: Connection, shared_server: Server, subject: str
) -> None:
    """Any client can write such an answer: it must not cost the one who asked the connection."""
    requests = await nc.subscribe(subject)
    for block in (b"NATS/1.0 none\r\n\r\n", b"NATS/9.9 503\r\n\r\n", b"\xff\xfe\r\n\r\n", b"garbage"):
        asking = asyncio.create_task(nc.request(subject))
        reply = (await requests.next()).reply
        with RawClient(shared_server.port) as raw:
            raw.send(encode.hpub(reply.encode(), b"", block, b""))
            answer = await asking
        assert answer.data == b""
    assert nc.connected
    assert nc.statistics.reconnects == 0


# --- permissions


async def test_a_request_that_is_not_permitted_fails_at_once(watch: Watch) -> None:
    user = User(user="u", password="p", publish_deny=["forbidden"])
    async with (
        Server(jetstream=False, users=[user]) as server,
        connect(server.url, user="u", password="p", **watch.listeners) as nc,
    ):
        with pytest.raises(PermissionsViolation, match="forbidden"):
            await nc.request("forbidden", timeout=3600)
        assert waiting(nc) == 0
        assert isinstance(await watch.until(Event.ERROR), PermissionsViolation)
        with pytest.raises(NoResponders):
            await nc.request("allowed")
        assert nc.statistics.reconnects == 0


async def test_every_request_fails_at_once_while_the_inbox_is_not_permitted() -> None:
    user = User(user="u", password="p", subscribe_deny=["_INBOX.>"])
    async with (
        Server(jetstream=False, users=[user]) as server,
        connect(server.url, user="u", password="p") as nc,
    ):
        for _ in range(3):
            with pytest.raises(PermissionsViolation, match="_INBOX"):
                await nc.request("service", timeout=3600)
        assert waiting(nc) == 0
        assert nc.session.receivers == []
        assert nc.connected


async def test_a_request_that_was_not_written_when_the_connection_broke_is_written_to_the_next_one(
    server: Server, proxy: TCPProxy
) -> None:
    async with (
        connect(server.url) as other,
        connect(proxy.url, reconnect_wait=0.01, pending_size=128 * 1024 * 1024) as nc,
    ):
        await other.subscribe("echo", callback=lambda message: message.respond(message.data))
        await other.flush()
        proxy.stall()
        transport = nc.session.transport
        assert transport is not None
        while transport.writable:
            nc.publish("filling", bytes(1000 * 1000))
            await asyncio.sleep(0)  # The socket takes what it can.
        asking = asyncio.create_task(nc.request("echo", b"hello", timeout=30))
        await asyncio.sleep(0.01)
        assert nc.session.outbox.size
        proxy.cut()
        proxy.unstall()
        assert (await asking).data == b"hello"


async def test_a_request_that_cannot_be_written_in_time_is_withdrawn(server: Server) -> None:
    async with connect(server.url, reconnect_wait=0.01) as nc:
        server.kill()
        await eventually(lambda: not nc.connected, "the end of the connection")
        await nc.publish("kept", b"1")
        size = nc.session.outbox.size
        with pytest.raises(NotSent):
            await nc.request("service", b"1", timeout=0.01)
        asking = asyncio.create_task(nc.request("service", b"1", timeout=30))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        assert [each async for each in nc.request_many("service", timeout=0.01)] == []
        assert nc.session.outbox.size == size
