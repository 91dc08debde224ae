"""Credentials are taken away, and given back, while the connection lives."""

from __future__ import annotations

import asyncio
import logging

import pytest

from jetspark import AuthorizationError, ConnectionClosed, Event, State, connect
from jetspark.server import Server, User
from tests.support.watch import Watch

ADA = User(user="ada", password="first")
BOB = User(user="bob", password="other")


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {"jetstream": False, "users": [ADA, BOB]}


async def test_a_removed_user_is_disconnected_and_gives_up_after_the_second_refusal(
    server: Server, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    nc = await connect(server.url, user="ada", password="first", **watch.listeners)
    await asyncio.to_thread(server.reload, users=[BOB])
    reason = await watch.until(Event.CLOSED)
    assert isinstance(reason, AuthorizationError)
    assert nc.state is State.CLOSED
    assert nc.statistics.reconnects == 0
    assert watch.names == [Event.DISCONNECTED, Event.CLOSED]
    async with asyncio.timeout(10):
        await nc.wait_closed()
    with pytest.raises(ConnectionClosed) as caught:
        nc.publish("a")
    assert caught.value.__cause__ is reason
    assert reason.__cause__ is not reason
    # Two attempts, no more.
    assert server.log().count("authentication error") == 2
    assert "first" not in caplog.text
    assert "first" not in repr(watch)


async def test_a_changed_password_is_the_reason_of_the_loss_and_of_the_end(
    server: Server, watch: Watch
) -> None:
    nc = await connect(server.url, user="ada", password="first", **watch.listeners)
    await asyncio.to_thread(server.reload, users=[User(user="ada", password="second")])
    assert isinstance(await watch.until(Event.DISCONNECTED), AuthorizationError)
    assert isinstance(await watch.until(Event.CLOSED), AuthorizationError)
    assert watch.names == [Event.ERROR, Event.DISCONNECTED, Event.CLOSED]
    assert nc.closed


async def test_a_changed_password_that_arrives_in_time_is_taken(server: Server, watch: Watch) -> None:
    asked = 0

    def password() -> str:
        nonlocal asked
        asked += 1
        return "second" if asked > 2 else "first"  # the first attempt after the change still has the old one

    async with connect(server.url, user="ada", password=password, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        await asyncio.to_thread(server.reload, users=[User(user="ada", password="second"), BOB])
        await watch.until(Event.RECONNECTED)
        assert asked == 3
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"


async def test_a_refusal_counts_anew_after_a_success(server: Server, watch: Watch) -> None:
    password = "first"
    async with connect(server.url, user="ada", password=lambda: password, **watch.listeners):
        for round_ in range(1, 4):
            password = f"round{round_}"
            await asyncio.to_thread(server.reload, users=[User(user="ada", password=password)])
            await watch.until(Event.RECONNECTED, round_)
        assert watch.count(Event.CLOSED) == 0


async def test_a_password_function_that_fails_is_reported_and_asked_again(
    server: Server, watch: Watch
) -> None:
    asked = 0

    def password() -> str:
        nonlocal asked
        asked += 1
        if asked in (2, 3):
            raise RuntimeError("the vault is sealed")
        return "first"

    async with connect(
        server.url, user="ada", password=password, reconnect_wait=0.01, **watch.listeners
    ) as nc:
        server.kill()
        server.start()
        await watch.until(Event.RECONNECTED)
        await nc.flush()
        assert [str(error) for event, error in watch.events if event is Event.ERROR] == [
            "the vault is sealed"
        ] * 2


async def test_a_server_that_refuses_is_left_for_one_that_does_not(server: Server, watch: Watch) -> None:
    with Server(jetstream=False, users=[ADA]) as second:
        urls = [server.url, second.url]
        async with connect(
            urls, shuffle_servers=False, user="ada", password="first", **watch.listeners
        ) as nc:
            await asyncio.to_thread(server.reload, users=[BOB])
            await watch.until(Event.RECONNECTED)
            assert nc.connected_url == second.url
            await nc.flush()
