"""The server, or somebody in its place, sends what is not the protocol, in mid-session."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace

import pytest

from jetspark import Error, Event, RemoteProtocolError, State, UsageError, connect
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch

GARBAGE = {
    "an_unknown_operation": b"HELLO world\r\n",
    "binary": bytes(range(256)) * 4 + b"\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "a_size_that_is_no_number": b"MSG a 1 x\r\n\r\n",
    "a_negative_size": b"MSG a 1 -5\r\nhello\r\n",
    "a_size_that_is_too_short": b"MSG a 1 2\r\nhello\r\n",
    "a_size_beyond_all_limits": b"MSG a 1 99999999999\r\n",
    "a_size_of_thousands_of_digits": b"MSG a 1 " + b"9" * 10_000 + b"\r\n",
    "a_header_larger_than_its_message": b"HMSG a 1 20 10\r\n" + bytes(10) + b"\r\n",
    "too_few_fields": b"MSG a\r\n",
    "a_client_operation": b"PUB a 0\r\n\r\n",
    "an_endless_line": b"A" * 1_000_000,
}


class Inject:
    """Appends something, once, to what the server sends."""

    def __init__(self, proxy: TCPProxy, garbage: bytes, *, after: bool) -> None:
        self._garbage = garbage
        self._after = after
        proxy.server_to_client = self

    def __call__(self, data: bytes) -> bytes:
        if data == b"PING\r\n":
            return data  # The server asks by itself, two seconds after the connect.
        garbage, self._garbage = self._garbage, b""
        return data + garbage if self._after else garbage + data


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_breaks_the_connection_which_comes_back(
    proxy: TCPProxy, watch: Watch, garbage: bytes, after: bool
) -> None:
    """`after` a good frame, in the same read, it must be noticed just as soon."""
    async with connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        Inject(proxy, garbage, after=after)
        nc.publish("a", b"1")
        error = await watch.until(Event.DISCONNECTED)
        assert isinstance(error, RemoteProtocolError)
        await watch.until(Event.RECONNECTED)
        nc.publish("a", b"2")
        expected = [b"1", b"2"] if after else [b"2"]
        assert [(await subscription.next(10)).data for _ in expected] == expected
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED]


async def test_a_malformed_status_in_an_answer_harms_nobody_else(proxy: TCPProxy, watch: Watch) -> None:
    """Anybody may answer a request, and with anything."""
    async with connect(proxy.url, **watch.listeners) as nc:
        proxy.server_to_client = lambda data: data.replace(b"NATS/1.0 503", b"NATS/1.0 5x3")
        answer = await nc.request("nobody", timeout=10)
        assert answer.headers.status is None
        assert answer.headers[""].startswith("NATS/1.0 5x3")
        await nc.flush()
        assert watch.names == []


async def test_an_unreadable_info_is_reported_and_changes_nothing(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, **watch.listeners) as nc:
        before = nc.server_info
        nested = b'INFO {"a":%b1%b}\r\n' % (b"[" * 20_000, b"]" * 20_000)
        Inject(proxy, b'INFO {"max_payload": "much"}\r\nINFO {\r\n' + nested, after=False)
        await nc.flush()
        assert [type(error) for event, error in watch.events] == [RemoteProtocolError] * 3
        assert nc.server_info == before
        assert nc.connected


async def test_garbage_in_every_handshake_is_survived(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        bad = iter([b"HELLO\r\n", b"INFO {\r\n", b"MSG a 1 0\r\n\r\n", b"INFO 1\r\n", b"-ERR 'no'\r\n"])
        proxy.server_to_client = lambda data: next(bad, None) or data
        proxy.cut()
        await watch.until(Event.RECONNECTED)
        proxy.server_to_client = None
        await nc.flush()


async def test_a_flood_of_garbage_does_not_fill_the_memory(proxy: TCPProxy, watch: Watch) -> None:
    """A line without end, forever: each connection is broken at the limit of a control line."""
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        flood = b"A" * 256 * 1024
        proxy.server_to_client = lambda _: flood
        tracemalloc.start()
        try:
            nc.publish("a")
            flushing = asyncio.create_task(nc.flush(20))
            await watch.until(Event.DISCONNECTED)
            while proxy.accepted < 20:
                await asyncio.sleep(0.005)
            now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert nc.state is State.RECONNECTING
        assert now < 4 * 1024 * 1024
        assert peak < 16 * 1024 * 1024
        await asyncio.wait([flushing])
        proxy.server_to_client = None
        await watch.until(Event.RECONNECTED)
        await nc.flush()


@pytest.mark.faults
@pytest.mark.parametrize("round_", range(10))
async def test_flipped_bytes_never_do_more_than_break_the_connection(
    proxy: TCPProxy, watch: Watch, ledger: Ledger, round_: int
) -> None:
    def flip(data: bytes) -> bytes:
        if ledger.random.random() < 0.7:
            return data
        spoiled = bytearray(data)
        for _ in range(ledger.random.randrange(1, 4)):
            spoiled[ledger.random.randrange(len(spoiled))] = ledger.random.randrange(256)
        return bytes(spoiled)

    async with connect(
        proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, ping_interval=0.5, **watch.listeners
    ) as nc:
        await nc.subscribe("a")
        await nc.flush()
        nc._link._options = replace(nc._link._options, connect_timeout=0.3)  # the first may take longer
        proxy.server_to_client = flip
        for _ in range(50):
            try:
                nc.publish("a", b"x" * 50, headers={"A": "b"})
            except UsageError:
                pass  # INFO was hit: it denied headers, or allowed less
            await asyncio.sleep(0.002)
        proxy.server_to_client = None
        proxy.cut()
        async with asyncio.timeout(100):
            while True:
                fresh = await nc.subscribe("b")
                try:
                    await nc.flush()
                    nc.publish("b", b"clean")
                    assert (await fresh.next(5)).data == b"clean"
                except Error:
                    assert nc.state is not State.CLOSED
                    continue
                break
