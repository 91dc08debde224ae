"""The server is killed at random moments, again and again, under continuous traffic."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import Connection, ConnectionLost, Event, NoResponders, connect
from jetspark.server import Server
from tests.support.ledger import Ledger
from tests.support.watch import Watch

pytestmark = pytest.mark.faults

ROUNDS = 5
WRITERS = ("a", "b", "c")


async def publish_for_ever(nc: Connection, writer: str, ledger: Ledger) -> None:
    while True:
        await nc.publish("x", ledger.attempt(writer, size=200))
        if ledger.random.random() < 0.1:
            await asyncio.sleep(ledger.random.random() / 200)


async def kill_and_start(server: Server, ledger: Ledger) -> None:
    await asyncio.sleep(ledger.random.random() / 5)
    server.kill()
    await asyncio.sleep(ledger.random.random() / 5)
    await asyncio.to_thread(server.start)


@pytest.mark.parametrize("connections", [1, 2])
async def test_each_time_traffic_goes_on_in_order_and_without_duplicates(
    server: Server, ledger: Ledger, connections: int
) -> None:
    watches = [Watch() for _ in range(connections)]
    async with asyncio.timeout(200):
        ncs = [await connect(server.url, **watch.listeners) for watch in watches]
        reader, publisher = ncs[0], ncs[-1]
        arrived = await reader.subscribe("x", callback=lambda message: ledger.read(message.data))
        writers = [asyncio.create_task(publish_for_ever(publisher, name, ledger)) for name in WRITERS]
        for round_ in range(1, ROUNDS + 1):
            await kill_and_start(server, ledger)
            for watch in watches:
                await watch.until(Event.RECONNECTED, round_)
            received = arrived.received
            while arrived.received == received:  # it is going again
                await asyncio.sleep(0.001)
        for task in writers:
            task.cancel()
        await asyncio.wait(writers)

        # From here on nothing is broken any more, so nothing is lost any more.
        await reader.flush()
        tail = [ledger.attempt(name) for name in WRITERS for _ in range(100)]
        for payload in tail:
            await publisher.publish("x", payload)
            ledger.acknowledge(payload)
        await publisher.flush()
        await reader.drain()
        await publisher.close()
    ledger.verify()
    assert all(watch.count(Event.RECONNECTED) == ROUNDS for watch in watches)


async def test_every_request_is_answered_or_fails_and_none_hangs(server: Server, ledger: Ledger) -> None:
    outcomes = {"answered": 0, "lost": 0}

    async def ask_for_ever(nc: Connection) -> None:
        while True:
            payload = ledger.attempt()
            try:
                answer = await nc.request("ask", payload, timeout=30)
            except (ConnectionLost, NoResponders):  # nobody listens until the other one is back
                outcomes["lost"] += 1
            else:
                assert answer.data == payload
                outcomes["answered"] += 1

    watch = Watch()
    async with (
        asyncio.timeout(200),
        connect(server.url) as answering,
        connect(server.url, **watch.listeners) as nc,
    ):
        await answering.subscribe("ask", callback=lambda message: message.respond(message.data))
        await answering.flush()
        asking = [asyncio.create_task(ask_for_ever(nc)) for _ in range(10)]
        for round_ in range(1, ROUNDS + 1):
            await kill_and_start(server, ledger)
            await watch.until(Event.RECONNECTED, round_)
            await answering.flush(20)
            answered = outcomes["answered"]
            while outcomes["answered"] == answered:
                await asyncio.sleep(0.001)
        assert not any(task.done() for task in asking)
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert outcomes["lost"]
