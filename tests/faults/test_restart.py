"""The server is killed under core traffic and comes back on the same port."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import (
    Connection,
    ConnectionLost,
    Event,
    Msg,
    OutboundBufferFull,
    State,
    Subscription,
    SubscriptionClosed,
    Timeout,
    connect,
)
from jetspark.server import Server
from tests.support.consuming import freeze
from tests.support.ledger import Ledger
from tests.support.watch import Watch


async def kill(server: Server, watch: Watch) -> None:
    """Kill it and wait until the client has noticed."""
    times = watch.count(Event.DISCONNECTED)
    server.kill()
    await watch.until(Event.DISCONNECTED, times + 1)


async def start(server: Server, watch: Watch) -> None:
    """Start it again and wait until the client is back."""
    times = watch.count(Event.RECONNECTED)
    await asyncio.to_thread(server.start)
    await watch.until(Event.RECONNECTED, times + 1)


async def restart(server: Server, watch: Watch) -> None:
    await kill(server, watch)
    await start(server, watch)


async def read(subscription: Subscription, count: int) -> list[bytes]:
    return [(await subscription.next(10)).data for _ in range(count)]


async def test_a_subscription_is_restored(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await restart(server, watch)
        nc.publish("a", b"1")
        assert await read(subscription, 1) == [b"1"]


async def test_a_wildcard_subscription_is_restored(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        one, all_ = await nc.subscribe("a.*.c"), await nc.subscribe("a.>")
        await restart(server, watch)
        nc.publish("a.b.c", b"1")
        nc.publish("a.b.d", b"2")
        assert await read(one, 1) == [b"1"]
        assert await read(all_, 2) == [b"1", b"2"]


async def test_a_queue_group_is_restored_and_shares_the_messages(
    server: Server, watch: Watch, ledger: Ledger
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        members = [
            await nc.subscribe("a", queue="q", callback=lambda message: ledger.read(message.data))
            for _ in range(3)
        ]
        await restart(server, watch)
        for _ in range(300):
            nc.publish("a", ledger.attempt())
        await nc.flush()
        await nc.drain()
        ledger.verify(complete=True, ordered=False)
        assert all(member.received for member in members)


async def test_a_callback_goes_on(server: Server, watch: Watch) -> None:
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: Msg) -> None:
        handled.put_nowait(message.data)

    async with connect(server.url, **watch.listeners) as nc:
        await nc.subscribe("a", callback=handle)
        nc.publish("a", b"before")
        assert await handled.get() == b"before"
        await restart(server, watch)
        nc.publish("a", b"after")
        assert await handled.get() == b"after"


async def test_a_reader_that_waits_gets_the_first_message_after_the_restart(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        reading = asyncio.create_task(subscription.next(20))
        await nc.flush()
        await restart(server, watch)
        nc.publish("a", b"1")
        assert (await reading).data == b"1"


async def test_what_was_received_before_can_be_read_while_down(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        nc.publish("a", b"1")
        nc.publish("a", b"2")
        await nc.flush()
        await kill(server, watch)
        assert await read(subscription, 2) == [b"1", b"2"]


async def test_a_subscription_made_while_down_lives_after_the_restart(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await kill(server, watch)
        subscription = await nc.subscribe("a")
        nc.publish("a", b"1")
        await start(server, watch)
        assert await read(subscription, 1) == [b"1"]


async def test_a_subscription_ended_while_down_is_not_restored(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        ended, drained = await nc.subscribe("a"), await nc.subscribe("a")
        await kill(server, watch)
        await ended.unsubscribe()
        await drained.drain()
        await start(server, watch)
        received = nc.statistics.in_msgs
        nc.publish("a", b"1")
        await nc.flush()
        assert nc.statistics.in_msgs == received


@pytest.mark.parametrize("buffered", [False, True], ids=["read", "buffered"])
async def test_an_auto_unsubscribe_keeps_its_remaining_count(
    server: Server, watch: Watch, buffered: bool
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", max_msgs=10)
        for number in range(4):
            nc.publish("a", b"%d" % number)
        await nc.flush()
        before = [] if buffered else await read(subscription, 4)
        await restart(server, watch)
        for number in range(4, 20):
            nc.publish("a", b"%d" % number)
        await nc.flush()
        # The server counts too: it does not send the 11th.
        assert nc.statistics.in_msgs == 10
        assert not subscription.active
        assert before + [message.data async for message in subscription] == [b"%d" % n for n in range(10)]
        with pytest.raises(SubscriptionClosed):
            await subscription.next(1)


async def test_an_auto_unsubscribe_keeps_its_count_over_several_restarts(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", max_msgs=4)
        for _ in range(3):
            nc.publish("a")
            await nc.flush()
            await restart(server, watch)
        for _ in range(5):
            nc.publish("a")
        await nc.flush()
        assert subscription.received == nc.statistics.in_msgs == 4


async def test_what_is_published_while_down_is_sent_in_order_afterwards(
    server: Server, watch: Watch, ledger: Ledger
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        nc.publish("a", ledger.attempt())
        await nc.flush()
        await kill(server, watch)
        for number in range(1000):
            headers = {"Number": str(number)} if number % 2 else None
            await nc.publish("a", ledger.attempt(), headers=headers)
        assert nc.state is State.RECONNECTING
        await start(server, watch)
        nc.publish("a", ledger.attempt())
        for payload in await read(subscription, 1002):
            ledger.read(payload)
        ledger.verify(complete=True)


async def test_what_does_not_fit_into_pending_size_is_refused_and_the_rest_is_sent(
    server: Server, watch: Watch, ledger: Ledger
) -> None:
    async with connect(server.url, pending_size=100_000, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        await kill(server, watch)
        taken = refused = 0
        for size in (1000, 1000, 10) * 200:  # the small ones fill the gaps
            payload = ledger.attempt(size=size)
            try:
                nc.publish("a", payload)
                taken += size
            except OutboundBufferFull:
                ledger.refuse(payload)
                refused += 1
        assert refused
        assert 95_000 < taken <= 100_000
        accepted = len(ledger.attempted)
        await start(server, watch)
        for payload in await read(subscription, accepted):
            ledger.read(payload)
        nc.publish("a", b"end")
        assert await read(subscription, 1) == [b"end"]
        ledger.verify(complete=True)


async def test_a_publisher_that_awaits_waits_for_the_server_when_much_is_pending(
    server: Server, watch: Watch, ledger: Ledger
) -> None:
    async with connect(server.url, pending_size=200_000, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        await kill(server, watch)

        async def publish_all() -> None:
            for _ in range(1000):  # five times pending_size
                await nc.publish("a", ledger.attempt(size=1000))

        publishing = asyncio.create_task(publish_all())
        await start(server, watch)
        await publishing
        for payload in await read(subscription, 1000):
            ledger.read(payload)
        ledger.verify(complete=True)


async def test_requests_in_flight_fail_with_connection_lost(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        asked = await nc.subscribe("ask")  # and never answers
        requests = [asyncio.create_task(nc.request("ask", timeout=60)) for _ in range(10)]
        await read(asked, 10)
        async with asyncio.timeout(30):
            await kill(server, watch)
            for outcome in await asyncio.gather(*requests, return_exceptions=True):
                assert isinstance(outcome, ConnectionLost)
                assert "'ask'" in str(outcome)


async def test_a_request_made_while_down_succeeds_after_the_restart(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await nc.subscribe("ask", callback=lambda message: message.respond(message.data + b"!"))
        assert (await nc.request("ask", b"before")).data == b"before!"
        await kill(server, watch)
        asking = asyncio.create_task(nc.request("ask", b"during", timeout=20))
        await asyncio.sleep(0)
        await start(server, watch)
        assert (await asking).data == b"during!"
        assert (await nc.request("ask", b"after")).data == b"after!"


async def test_the_first_request_ever_may_be_made_while_down(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await nc.subscribe("ask", callback=lambda message: message.respond(b"yes"))
        await kill(server, watch)
        asking = asyncio.create_task(nc.request("ask", timeout=20))
        await asyncio.sleep(0)
        await start(server, watch)
        assert (await asking).data == b"yes"


async def test_a_request_made_while_down_times_out_when_the_server_stays_away(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await kill(server, watch)
        with pytest.raises(Timeout, match="'ask'"):
            await nc.request("ask", timeout=0.05)


async def test_flush_waits_for_the_reconnect(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await kill(server, watch)
        flushing = asyncio.create_task(nc.flush(20))
        await asyncio.sleep(0)
        assert not flushing.done()
        await asyncio.to_thread(server.start)
        await flushing
        assert nc.connected


async def test_flush_times_out_when_the_server_stays_away(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await kill(server, watch)
        with pytest.raises(Timeout):
            await nc.flush(0.05)


async def test_a_flush_under_way_fails_with_connection_lost(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await freeze(server)
        flushing = asyncio.create_task(nc.flush(60))
        await asyncio.sleep(0)
        await kill(server, watch)
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionLost):
                await flushing


async def test_disconnected_and_reconnected_are_told_once_each_and_in_order(
    server: Server, watch: Watch
) -> None:
    states: list[State] = []
    async with connect(server.url, **watch.listeners) as nc:
        nc.on(Event.DISCONNECTED, lambda _: states.append(nc.state))
        nc.on(Event.RECONNECTED, lambda: states.append(nc.state))
        for round_ in range(1, 4):
            await restart(server, watch)
            await nc.flush()
            assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED] * round_
            assert states == [State.RECONNECTING, State.CONNECTED] * round_
            assert nc.statistics.reconnects == round_
            assert isinstance(watch.last(Event.DISCONNECTED), ConnectionLost)
    assert watch.names[-1] is Event.CLOSED
    assert watch.last(Event.CLOSED) is None
    assert len(watch.names) == 7


async def test_a_reconnected_listener_can_use_the_connection(server: Server, watch: Watch) -> None:
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def ask(nc: Connection) -> None:
        answers.put_nowait((await nc.request("ask")).data)

    async with connect(server.url, **watch.listeners) as nc:
        await nc.subscribe("ask", callback=lambda message: message.respond(b"yes"))
        nc.on(Event.RECONNECTED, lambda: ask(nc))
        await restart(server, watch)
        assert await answers.get() == b"yes"


async def test_statistics_go_on_counting(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        await nc.subscribe("a")
        nc.publish("a", b"12345")
        await nc.flush()
        before = nc.statistics
        await restart(server, watch)
        nc.publish("a", b"12345")
        await nc.flush()
        after = nc.statistics
        assert (after.in_msgs, after.out_msgs) == (2, 2)
        assert after.in_bytes > before.in_bytes
        assert after.out_bytes > before.out_bytes
