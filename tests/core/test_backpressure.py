"""Back-pressure: when the network stops, publishers wait or are refused, and nothing is lost silently."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    Event,
    OutboundBufferFull,
    RemoteProtocolError,
    StaleConnection,
    Timeout,
    connect,
)
from jetspark.server import Server
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch, eventually

BLOCK = bytes(128 * 1024)


def number(data: bytes) -> int:
    return int(data[:8])


def numbered(count: int) -> bytes:
    return b"%08d" % count + BLOCK


def try_to_publish(nc: Connection, subject: str, count: int) -> bool:
    try:
        nc.publish(subject, numbered(count))
    except OutboundBufferFull:
        return False
    return True


async def reader(server: Server, subject: str) -> tuple[Connection, asyncio.Task[list[int]]]:
    """A connection past the proxy that collects the numbers until it is unsubscribed."""
    nc = await connect(server.url)
    subscription = await nc.subscribe(subject)
    await nc.flush()

    async def collect() -> list[int]:
        seen: list[int] = []
        async for message in subscription:
            if message.data == b"end":
                break
            seen.append(number(message.data))
        return seen

    return nc, asyncio.create_task(collect())


async def test_awaiting_publish_waits_for_a_stalled_network_and_memory_stays_bounded(
    server: Server, proxy: TCPProxy, subject: str
) -> None:
    other, collecting = await reader(server, subject)
    async with other, connect(proxy.url) as nc:
        await nc.flush()
        proxy.stall()
        sent = 0
        waiting = False

        async def publish() -> None:
            nonlocal sent, waiting
            while sent < 400:
                written = nc.publish(subject, numbered(sent))
                sent += 1
                waiting = True
                await written
                waiting = False

        publishing = asyncio.create_task(publish())
        quiet = 0
        before = -1
        while quiet < 20:  # it waits for good once nothing has moved for a while
            await asyncio.sleep(0.01)
            quiet, before = (quiet + 1 if sent == before else 0), sent
        assert waiting
        assert not publishing.done()
        assert nc.session.outbox.size < 4 * 1024 * 1024
        proxy.unstall()
        await publishing
        await nc.publish(subject, b"end")
        assert await collecting == list(range(400))


async def test_publishing_without_await_is_refused_at_pending_size_and_loses_nothing(
    server: Server, proxy: TCPProxy, subject: str
) -> None:
    other, collecting = await reader(server, subject)
    limit = 8 * 1024 * 1024
    async with other, connect(proxy.url, pending_size=limit) as nc:
        await nc.flush()
        proxy.stall()
        accepted: list[int] = []
        refused = 0
        for count in range(2000):
            if not try_to_publish(nc, subject, count):
                refused += 1
                if refused == 3:
                    break
            else:
                accepted.append(count)
            assert nc.session.outbox.size <= limit
            await asyncio.sleep(0)  # the socket takes what it can
        assert refused == 3
        assert nc.statistics.out_msgs == len(accepted)
        proxy.unstall()
        await nc.flush(timeout=30)
        await nc.publish(subject, b"end")
        assert await collecting == accepted


async def test_what_is_published_while_disconnected_is_bounded_and_sent_in_order(
    server: Server, proxy: TCPProxy, subject: str
) -> None:
    other, collecting = await reader(server, subject)
    async with other, connect(proxy.url, pending_size=1024 * 1024) as nc:
        proxy.refuse()
        proxy.cut()
        while nc.connected:
            await asyncio.sleep(0)
        accepted = [count for count in range(100) if try_to_publish(nc, subject, count)]
        assert accepted == [0, 1, 2, 3, 4, 5, 6]  # of 128 KiB and a little, in 1 MiB
        with pytest.raises(OutboundBufferFull) as caught:
            nc.publish(subject, numbered(100))
        assert caught.value.hint
        proxy.accept()
        await nc.flush(timeout=30)
        await nc.publish(subject, b"end")
        assert await collecting == accepted


async def test_awaiting_publish_times_out_when_the_network_does_not_come_back(
    proxy: TCPProxy, subject: str
) -> None:
    async with connect(proxy.url, drain_timeout=0.5) as nc:
        proxy.refuse()
        proxy.cut()
        while nc.connected:
            await asyncio.sleep(0)
        with pytest.raises(Timeout, match="still wait to be written"):
            await nc.publish(subject, BLOCK)


async def test_a_publisher_that_waits_learns_that_the_connection_was_closed(
    proxy: TCPProxy, subject: str
) -> None:
    nc = await connect(proxy.url)
    proxy.refuse()
    proxy.cut()
    while nc.connected:
        await asyncio.sleep(0)

    async def publish() -> None:
        await nc.publish(subject, BLOCK)

    publishing = asyncio.create_task(publish())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not publishing.done()
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await publishing


async def test_a_waiting_write_that_is_never_awaited_does_no_harm(proxy: TCPProxy, subject: str) -> None:
    """No "coroutine was never awaited": publish returns no coroutine."""
    async with connect(proxy.url) as nc:
        for _ in range(100):
            nc.publish(subject, BLOCK)
        await nc.flush()


async def test_many_publishers_that_wait_all_go_on(server: Server, proxy: TCPProxy, subject: str) -> None:
    other = await connect(server.url)
    async with other, connect(proxy.url) as nc:
        subscription = await other.subscribe(subject)
        await other.flush()
        proxy.stall()

        async def publish(writer: int) -> None:
            for count in range(20):
                await nc.publish(subject, b"%08d" % (writer * 1000 + count) + BLOCK)

        publishing = asyncio.gather(*(publish(writer) for writer in range(20)))
        await asyncio.sleep(0)
        proxy.unstall()
        await publishing
        await nc.flush(timeout=30)
        seen = [number((await subscription.next()).data) for _ in range(400)]
        assert sorted(seen) == sorted(writer * 1000 + count for writer in range(20) for count in range(20))
        for writer in range(20):
            own = [count for count in seen if count // 1000 == writer]
            assert own == sorted(own)


# --- a server that does not read


async def test_pings_of_a_server_that_reads_nothing_fill_no_memory() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer, used = await server.peer(), nc.session.transport
        assert peer._transport is not None
        assert used is not None
        assert used._transport is not None
        peer._transport.pause_reading()
        while used.writable:
            nc.publish("x", BLOCK)
            await asyncio.sleep(0)
        waiting = used._transport.get_write_buffer_size()
        pings = b"PING\r\n" * 20_000
        received = nc.session.bytes_received
        peer.send(pings)
        await eventually(lambda: nc.session.bytes_received == received + len(pings), "the pings")
        assert used._transport.get_write_buffer_size() <= waiting
        peer._transport.resume_reading()
        await nc.flush()
        assert 0 < peer.raw.count(b"PONG\r\n") <= 1024


async def test_a_server_that_lets_too_many_frames_of_the_session_wait_is_given_up(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, pending_size=0, **watch.listeners) as nc:
        nc.session.outbox.control_limit = 1000
        assert nc.session.transport is not None
        nc.session.transport.writable = False
        for number in range(100):
            await nc.subscribe(f"subject.{number}")
        error = await watch.until(Event.DISCONNECTED)
        assert isinstance(error, StaleConnection)
        assert "does not read" in str(error)
        await watch.until(Event.RECONNECTED)
        await nc.flush()
        assert len((await server.peer(1)).subscriptions) == 100


async def test_a_server_that_sends_too_much_in_the_handshake_is_refused() -> None:
    long = b'INFO {"x": "%b"}\r\n' % (b"x" * 60_000)
    async with ScriptedServer(greeting=long * 20) as server:
        with pytest.raises(RemoteProtocolError, match="during the handshake"):
            await connect(server.url)
