"""A fleet of clients loses its server."""

from __future__ import annotations

import asyncio

from jetspark import Event, connect
from jetspark.server import Server
from tests.support.watch import Watch

COUNT = 50


async def test_fifty_connections_all_come_back(server: Server) -> None:
    watches = [Watch() for _ in range(COUNT)]
    async with asyncio.timeout(200):
        ncs = await asyncio.gather(*(connect(server.url, **watch.listeners)._open() for watch in watches))
        subscriptions = [await nc.subscribe(f"to.{number}") for number, nc in enumerate(ncs)]
        for round_ in range(1, 3):
            await asyncio.to_thread(server.restart)
            for watch in watches:
                await watch.until(Event.RECONNECTED, round_)
            # Each one writes to its neighbour.
            await asyncio.gather(*(nc.flush() for nc in ncs))
            for number, nc in enumerate(ncs):
                nc.publish(f"to.{(number + 1) % COUNT}", b"%d" % number)
            for number, subscription in enumerate(subscriptions):
                assert (await subscription.next(10)).data == b"%d" % ((number - 1) % COUNT)
        await asyncio.gather(*(nc.close() for nc in ncs))
    assert all(
        watch.names == [Event.DISCONNECTED, Event.RECONNECTED] * 2 + [Event.CLOSED] for watch in watches
    )
