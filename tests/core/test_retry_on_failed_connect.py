"""`retry_on_failed_connect`: a first connect that goes on like a reconnect; and waiting for a connection."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from jetspark import (
    AuthorizationError,
    ConnectionClosed,
    ConnectionError,
    Event,
    State,
    Timeout,
    UsageError,
    connect,
)
from jetspark.core.server_info import ServerInfo
from jetspark.server import Server, User, run
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch


@pytest.fixture
def away(server: Server) -> Server:
    """A server that is not running, and can be started."""
    server.kill()
    return server


async def test_what_is_done_before_the_server_comes_is_done_when_it_comes(away: Server, watch: Watch) -> None:
    connected: list[str] = []
    async with connect(
        away.url,
        retry_on_failed_connect=True,
        on_connected=lambda: connected.append("now"),
        **watch.listeners,
    ) as nc:
        assert (nc.state, nc.connected, nc.connected_url) == (State.CONNECTING, False, None)
        assert isinstance(nc.last_error, ConnectionError)
        subscription = await nc.subscribe("early")
        await nc.publish("early", b"1", headers={"with": "headers"})
        question = asyncio.create_task(nc.request("service", b"?", timeout=60))
        service = await nc.subscribe("service")
        await asyncio.to_thread(away.start)
        assert (await subscription.next(timeout=60)).data == b"1"
        await nc.publish((await service.next(timeout=60)).reply, b"!")
        assert (await question).data == b"!"
        assert nc.state is State.CONNECTED
        assert nc.statistics.reconnects == 0
    assert connected == ["now"]
    assert watch.names == [Event.CLOSED]


async def test_wait_connected_waits_for_the_server(away: Server) -> None:
    async with connect(away.url, retry_on_failed_connect=True) as nc:
        with pytest.raises(
            Timeout, match=r"the connection was not made within 0\.01 s; last error: cannot connect"
        ) as caught:
            await nc.wait_connected(0.01)
        assert isinstance(caught.value.__cause__, ConnectionError)
        waiting = asyncio.create_task(nc.wait_connected(60))
        await asyncio.to_thread(away.start)
        await waiting
        await nc.flush()


async def test_the_event_also_tells_of_a_first_connect_that_succeeds(shared_server: Server) -> None:
    connected: list[str] = []
    async with connect(shared_server.url, on_connected=lambda: connected.append("now")):
        assert connected == ["now"]


async def test_without_the_option_the_first_connect_fails(away: Server) -> None:
    with pytest.raises(ConnectionError):
        await connect(away.url)


async def test_errors_that_do_not_pass_are_raised_at_once() -> None:
    with run(users=[User(user="a", password="b")], jetstream=False) as guarded:
        with pytest.raises(AuthorizationError):
            await connect(guarded.url, user="a", password="c", retry_on_failed_connect=True)
        with pytest.raises(UsageError, match="nowhere"):
            await connect(guarded.url, credentials_file="/nowhere", retry_on_failed_connect=True)
    with pytest.raises(UsageError, match="max_reconnect_attempts"):
        connect("nats://host", retry_on_failed_connect=True, max_reconnect_attempts=0)


async def test_it_gives_up_after_max_reconnect_attempts(away: Server, watch: Watch) -> None:
    nc = await connect(
        away.url,
        retry_on_failed_connect=True,
        max_reconnect_attempts=3,
        reconnect_wait=0.001,
        max_reconnect_wait=0.001,
        **watch.listeners,
    )
    with pytest.raises(ConnectionClosed):
        await nc.wait_connected(60)
    assert "gave up" in str(await watch.until(Event.CLOSED))


async def test_closing_before_the_first_connect_ends_the_attempts(away: Server) -> None:
    nc = await connect(away.url, retry_on_failed_connect=True)
    await nc.close()
    assert nc.closed  # The fixture of all these tests checks that no task is left.


async def test_an_unknown_server_counts_as_one_with_all_features(away: Server) -> None:
    async with connect(away.url, retry_on_failed_connect=True) as nc:
        assert nc.server_info == ServerInfo(headers=True)


# --- how long it waits between attempts


async def test_the_users_function_decides_on_the_wait(away: Server) -> None:
    failures: list[int] = []
    started = asyncio.Event()

    def delay(so_far: int) -> float:
        failures.append(so_far)
        if so_far >= 3:
            started.set()
        return 0.001 if so_far < 3 else 0.05

    async with connect(
        away.url,
        retry_on_failed_connect=True,
        reconnect_wait=600,
        max_reconnect_wait=600,
        reconnect_delay=delay,
    ) as nc:
        await started.wait()
        await asyncio.to_thread(away.start)
        await nc.wait_connected(60)
    assert failures[:4] == [1, 2, 3, 4][: len(failures[:4])]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "soon", None, ZeroDivisionError])
async def test_a_function_that_returns_nonsense_is_reported_and_the_default_used(
    away: Server, watch: Watch, bad: Any
) -> None:
    def delay(_: int) -> Any:
        if bad is ZeroDivisionError:
            raise ZeroDivisionError
        return bad

    async with connect(
        away.url,
        retry_on_failed_connect=True,
        max_reconnect_wait=0.01,
        reconnect_delay=delay,
        **watch.listeners,
    ) as nc:
        await watch.until(Event.ERROR)
        await asyncio.to_thread(away.start)
        await nc.wait_connected(60)


# --- addresses of a host


async def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    firsts: set[str] = set()

    async def two_addresses(host: str, port: int, **options: int) -> list[object]:
        if host != "cluster.example":  # uvloop resolves the addresses, too.
            return [*await resolve(host, port, **options)]
        return [*await resolve("127.0.0.9", port, **options), *await resolve("127.0.0.1", port, **options)]

    async with ScriptedServer() as server:
        monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
        connected = loop.sock_connect
        tried: list[str] = []

        async def note(sock: socket.socket, address: tuple[str, int]) -> None:
            tried.append(address[0])
            await connected(sock, address)

        monkeypatch.setattr(loop, "sock_connect", note)
        for _ in range(200):
            tried.clear()
            async with connect(f"nats://cluster.example:{server.port}") as nc:
                assert nc.connected
            firsts.add(tried[0])
            if len(firsts) == 2:
                break
        assert firsts == {"127.0.0.9", "127.0.0.1"}, "the addresses are not shuffled"
        tried.clear()
        async with connect(f"nats://cluster.example:{server.port}", shuffle_servers=False) as nc:
            assert tried == ["127.0.0.9", "127.0.0.1"]
