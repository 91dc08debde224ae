"""The server comes back with other limits than before."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import Event, MaxPayloadError, ServerError, connect
from jetspark.server import Server
from tests.support.watch import Watch


async def lower(server: Server, max_payload: int) -> None:
    """To what a running server can be told; clients are not told by it."""
    await asyncio.to_thread(server.reload, max_payload=max_payload)


async def test_a_smaller_max_payload_is_known_after_the_reconnect(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        nc.publish("a", bytes(5000))
        await subscription.next(10)
        await lower(server, 1000)
        await asyncio.to_thread(server.restart)
        await watch.until(Event.RECONNECTED)
        assert nc.max_payload == 1000
        with pytest.raises(MaxPayloadError, match="has 1001 bytes, the server takes 1000"):
            nc.publish("a", bytes(1001))
        with pytest.raises(MaxPayloadError):  # headers count
            nc.publish("a", bytes(1000), headers={"A": "b"})
        with pytest.raises(MaxPayloadError):
            await nc.request("a", bytes(1001))
        nc.publish("a", bytes(1000))
        assert len((await subscription.next(10)).data) == 1000
        assert watch.count(Event.DISCONNECTED) == 1


async def test_a_larger_max_payload_is_known_after_the_reconnect(server: Server, watch: Watch) -> None:
    await lower(server, 1000)
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        with pytest.raises(MaxPayloadError):
            nc.publish("a", bytes(1001))
        await lower(server, 5000)
        await asyncio.to_thread(server.restart)
        await watch.until(Event.RECONNECTED)
        nc.publish("a", bytes(5000))
        assert len((await subscription.next(10)).data) == 5000


async def test_a_limit_lowered_in_mid_session_costs_one_reconnect(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        await lower(server, 1000)
        nc.publish("a", bytes(1001))
        error = await watch.until(Event.DISCONNECTED)
        assert isinstance(error, ServerError)
        assert "Maximum Payload Violation" in str(error)
        await watch.until(Event.RECONNECTED)
        with pytest.raises(MaxPayloadError):
            nc.publish("a", bytes(1001))
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"


async def test_what_waits_and_became_too_large_is_reported_and_the_rest_is_sent(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        await lower(server, 1000)
        server.kill()
        await watch.until(Event.DISCONNECTED)
        nc.publish("a", b"before")
        nc.publish("a", bytes(1001))
        nc.publish("a", bytes(900), headers={"A": "b" * 100})
        nc.publish("a", bytes(1000))
        nc.publish("a", b"after")
        await asyncio.to_thread(server.start)
        await watch.until(Event.RECONNECTED)
        received = [len((await subscription.next(10)).data) for _ in range(3)]
        assert received == [6, 1000, 5]
        assert [type(error) for event, error in watch.events if event is Event.ERROR] == [MaxPayloadError]
        assert watch.names.count(Event.DISCONNECTED) == 1
