"""The connection itself: what it tells about itself, its state and its events."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import Connection, Event, ServerInfo, State, Statistics, Timeout, connect
from jetspark.core.options import ConnectOptions
from jetspark.core.servers import parse_servers
from jetspark.server import Server, User
from jetspark.wire import PingFrame
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch, eventually

SECRET = "hunter2-s3cret"


async def test_flush_returns_when_the_server_has_processed_everything(
    nc: Connection, other: Connection, subject: str
) -> None:
    subscription = await other.subscribe(subject)
    await other.flush()
    for _ in range(1000):
        nc.publish(subject)
    await nc.flush()
    await other.flush()
    assert subscription.pending_msgs == 1000


async def test_flushes_at_the_same_time_are_all_answered(nc: Connection) -> None:
    await asyncio.gather(*(nc.flush() for _ in range(100)))


async def test_flush_raises_timeout_when_the_server_is_silent() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()
        await peer.expect(PingFrame)
        server.answers_pings = False
        with pytest.raises(Timeout):
            await nc.flush(timeout=0.01)
        assert nc.connected
        await peer.expect(PingFrame)
        server.answers_pings = True
        peer.send(b"PONG\r\n")
        await nc.flush()


async def test_a_flush_that_timed_out_is_not_mistaken_for_the_next_one() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()
        await peer.expect(PingFrame)
        server.answers_pings = False
        with pytest.raises(Timeout):
            await nc.flush(timeout=0.01)
        await peer.expect(PingFrame)
        second = asyncio.create_task(nc.flush())
        await peer.expect(PingFrame)
        peer.send(b"PONG\r\n")
        # A message behind the PONG: when it is there, the PONG was looked at.
        subscription = await nc.subscribe("behind")
        await eventually(lambda: peer.deliver("behind") > 0, "the subscription")
        await subscription.next()
        assert not second.done()
        peer.send(b"PONG\r\n")
        await second
        server.answers_pings = True


async def test_rtt_is_a_positive_number_of_seconds(nc: Connection) -> None:
    assert 0 < await nc.rtt() < 30


async def test_statistics_count_messages_and_bytes(shared_server: Server, subject: str) -> None:
    async with connect(shared_server.url) as nc:
        assert nc.statistics.out_msgs == nc.statistics.in_msgs == 0
        before = nc.statistics
        subscription = await nc.subscribe(subject)
        for _ in range(10):
            await nc.publish(subject, bytes(100))
        for _ in range(10):
            await subscription.next()
        after = nc.statistics
        assert isinstance(after, Statistics)
        assert (after.out_msgs, after.in_msgs, after.reconnects) == (10, 10, 0)
        assert after.out_bytes - before.out_bytes >= 1000
        assert after.in_bytes - before.in_bytes >= 1000
    assert nc.statistics.in_msgs == 10


async def test_the_state_follows_the_life_of_a_connection(proxy: TCPProxy, watch: Watch) -> None:
    nc = await connect(proxy.url, **watch.listeners)
    assert (nc.state, nc.connected, nc.closed, nc.draining) == (State.CONNECTED, True, False, False)
    proxy.refuse()
    proxy.cut()
    await watch.until(Event.DISCONNECTED)
    assert (nc.state, nc.connected, nc.closed) == (State.RECONNECTING, False, False)
    assert nc.connected_url is None
    proxy.accept()
    await watch.until(Event.RECONNECTED)
    assert (nc.state, nc.statistics.reconnects) == (State.CONNECTED, 1)
    await nc.close()
    assert (nc.state, nc.connected, nc.closed) == (State.CLOSED, False, True)
    assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED, Event.CLOSED]


async def test_the_server_tells_about_itself(nc: Connection, shared_server: Server, url: str) -> None:
    info = nc.server_info
    assert isinstance(info, ServerInfo)
    assert info.server_name == shared_server.name
    assert info.port == int(url.rpartition(":")[2])
    assert info.headers
    assert info.version
    assert nc.max_payload == info.max_payload


async def test_urls_are_shown_without_user_info() -> None:
    with Server(jetstream=False, users=[User(user="me", password=SECRET)]) as server:
        url = f"nats://me:{SECRET}@127.0.0.1:{server.port}"
        async with connect(url) as nc:
            assert nc.connected_url == f"nats://127.0.0.1:{server.port}"
            assert nc.servers == [f"nats://127.0.0.1:{server.port}"]
            assert repr(nc) == f"<Connection connected to nats://127.0.0.1:{server.port}>"
        assert nc.connected_url is None
        assert repr(nc) == f"<Connection closed to nats://127.0.0.1:{server.port}>"


async def test_no_repr_shows_a_secret() -> None:
    shown = [
        *parse_servers(f"nats://{SECRET}:{SECRET}@host,tls://{SECRET}@other"),
        ConnectOptions(user=SECRET, password=SECRET),
        ConnectOptions(token=SECRET),
        ConnectOptions(nkey_seed=SECRET),
        connect(f"nats://{SECRET}:{SECRET}@host"),
        connect("nats://host", token=SECRET),
    ]
    for each in shown:
        assert SECRET not in repr(each)
        assert SECRET not in str(each)


async def test_what_connect_says_of_this_client_reaches_the_server() -> None:
    async with ScriptedServer() as server, connect(server.url, name="billing") as nc:
        said = (await server.peer()).connect
        assert said["name"] == "billing"
        assert said["lang"] == "python"
        assert (said["verbose"], said["pedantic"], said["headers"]) == (False, False, True)
        assert (said["no_responders"], said["protocol"], said["echo"]) == (True, 1, True)
        assert nc.connected


async def test_a_name_with_quotes_and_unicode_is_sent_as_json() -> None:
    name = 'quote " backslash \\ ☃'
    async with ScriptedServer() as server, connect(server.url, name=name):
        assert (await server.peer()).connect["name"] == name


# --- events


async def test_listeners_can_come_and_go(shared_server: Server, subject: str) -> None:
    heard: list[str] = []
    nc = await connect(shared_server.url, on_closed=lambda _: heard.append("option"))
    stop = nc.on(Event.CLOSED, lambda _: heard.append("stopped"))
    nc.on(Event.CLOSED, lambda _: heard.append("later"))
    stop()
    stop()
    await nc.close()
    assert heard == ["option", "later"]


async def test_a_failing_listener_is_logged_and_the_others_are_called(
    shared_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fails(_: object) -> None:
        raise ZeroDivisionError("plain")

    async def fails_later(_: object) -> None:
        raise ZeroDivisionError("coroutine")

    nc = await connect(shared_server.url, on_closed=fails)
    nc.on(Event.CLOSED, fails_later)
    nc.on(Event.CLOSED, lambda _: heard.append("heard"))
    await nc.close()
    assert heard == ["heard"]
    assert "a listener of 'closed' failed" in caplog.text
    assert "plain" in caplog.text
    assert "coroutine" in caplog.text


async def test_discovered_servers_are_told_and_listed(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, **watch.listeners) as nc:
        peer = await server.peer()
        peer.send_info(connect_urls=[f"127.0.0.1:{server.port}", "10.0.0.1:4222", "[::1]:4222"])
        assert await watch.until(Event.DISCOVERED) == ["10.0.0.1:4222", "[::1]:4222"]
        assert set(nc.servers) == {server.url, "nats://10.0.0.1:4222", "nats://[::1]:4222"}
        peer.send_info(connect_urls=["10.0.0.2:4222"])
        assert await watch.until(Event.DISCOVERED, times=2) == ["10.0.0.2:4222"]
        assert set(nc.servers) == {server.url, "nats://10.0.0.2:4222"}


async def test_discovery_can_be_turned_off(watch: Watch) -> None:
    async with (
        ScriptedServer(info={"connect_urls": ["10.0.0.1:4222"]}) as server,
        connect(server.url, discover_servers=False, **watch.listeners) as nc,
    ):
        (await server.peer()).send_info(connect_urls=["10.0.0.2:4222"])
        await nc.flush()
        assert nc.servers == [server.url]
        assert watch.names == []


async def test_an_info_that_cannot_be_read_is_reported_and_the_connection_stays(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, **watch.listeners) as nc:
        (await server.peer()).send(b'INFO {"max_payload": "many"}\r\n')
        assert "INFO" in str(await watch.until(Event.ERROR))
        await nc.flush()
        assert nc.max_payload == 1024 * 1024


async def test_errors_of_the_server_are_reported(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, **watch.listeners) as nc:
        (await server.peer()).send(b"-ERR 'Something odd'\r\n")
        error = await watch.until(Event.ERROR)
        assert "Something odd" in str(error)
        assert nc.last_error is error
        await nc.flush()


async def test_garbage_from_the_server_breaks_the_connection_at_once(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("before")
        await nc.flush()
        peer = await server.peer()
        peer.deliver("before", b"still delivered")
        peer.send(b"GARBAGE\r\n")
        error = await watch.until(Event.DISCONNECTED)
        assert type(error).__name__ == "RemoteProtocolError"
        assert (await subscription.next()).data == b"still delivered"
        await watch.until(Event.RECONNECTED)


async def test_messages_and_garbage_in_one_piece_are_told_apart(watch: Watch) -> None:
    async with ScriptedServer() as server, connect(server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("subject")
        await nc.flush()
        peer = await server.peer()
        peer.send(b"MSG subject 1 4\r\ngood\r\nGARBAGE\r\n")
        assert (await subscription.next()).data == b"good"
        error = await watch.until(Event.DISCONNECTED)
        assert type(error).__name__ == "RemoteProtocolError"


async def test_the_server_may_ping_at_any_time() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()
        peer.send(b"PING\r\n" * 3)
        await nc.flush()
        await eventually(lambda: peer.raw.count(b"PONG\r\n") == 3, "the answers")


async def test_messages_for_unknown_subscriptions_are_ignored() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        (await server.peer()).send(b"MSG nobody 999 2\r\nhi\r\n+OK\r\n")
        await nc.flush()
        assert nc.connected
