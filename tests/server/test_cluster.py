"""A cluster: it forms, it replicates, it survives the loss of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetspark.errors import ServerStartError
from jetspark.server import Cluster, Server, User, run_cluster
from tests.support.raw import RawClient
from tests.support.waiting import wait_until


def leader_known(server: Server, stream: str) -> bool:
    try:
        with RawClient(server.port, timeout=2) as client:
            cluster = client.api(f"STREAM.INFO.{stream}")["cluster"]
    except (OSError, RuntimeError):
        return False
    return "leader" in cluster


def current(server: Server, stream: str, size: int) -> bool:
    """Whether all replicas of a stream are up to date."""
    try:
        with RawClient(server.port, timeout=2) as client:
            replicas = client.api(f"STREAM.INFO.{stream}")["cluster"].get("replicas", [])
    except (OSError, RuntimeError):
        return False
    return len(replicas) == size - 1 and all(each["current"] for each in replicas)


def test_a_cluster_can_replicate_as_soon_as_it_has_started(cluster: Cluster) -> None:
    assert cluster.url == ",".join(cluster.urls)
    assert len(set(cluster.urls)) == 3
    for number, server in enumerate(cluster.servers):
        with RawClient(server.port) as client:
            assert client.info["cluster"] == cluster.name
            assert len(client.info["connect_urls"]) == 3
            made = client.api(
                f"STREAM.CREATE.R{number}",
                {"name": f"R{number}", "subjects": [f"r{number}"], "num_replicas": 3},
            )
            assert len(made["cluster"]["replicas"]) == 2
            assert json.loads(client.request(f"r{number}", b"x"))["seq"] == 1


def test_nothing_of_the_probe_is_left(cluster: Cluster) -> None:
    with RawClient(cluster.servers[0].port) as client:
        assert "jetspark-probe" not in (client.api("STREAM.NAMES")["streams"] or [])


def test_a_killed_server_comes_back_with_what_it_missed(cluster: Cluster) -> None:
    first, _, third = cluster.servers
    port = third.port
    with RawClient(first.port) as client:
        client.api("STREAM.CREATE.K", {"name": "K", "subjects": ["k"], "num_replicas": 3})
    third.kill()
    wait_until(lambda: leader_known(first, "K"), "a leader with two of three", 60)
    with RawClient(first.port) as client:
        assert json.loads(client.request("k", b"x"))["seq"] == 1
    third.start()
    assert third.port == port
    wait_until(lambda: current(first, "K", 3), "the third server has caught up", 60)


def test_a_cluster_that_was_killed_starts_again_with_its_data(tmp_path: Path) -> None:
    with run_cluster(3, store_dir=tmp_path, name="again") as cluster:
        urls = cluster.urls
        with RawClient(cluster.servers[0].port) as client:
            client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "num_replicas": 3})
            client.request("s", b"x")
        cluster.kill()
        assert not any(server.running for server in cluster.servers)
        cluster.start()
        assert cluster.urls == urls
        wait_until(lambda: leader_known(cluster.servers[1], "S"), "the stream has a leader", 60)
        with RawClient(cluster.servers[1].port) as client:
            assert client.api("STREAM.INFO.S")["state"]["messages"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server-1", "server-2", "server-3"]


async def test_async_with_starts_and_stops_a_cluster_with_users() -> None:
    async with Cluster(2, users=[User(user="ann", password="a")]) as cluster:
        with RawClient(cluster.servers[1].port, user="ann", password="a") as client:
            client.api("STREAM.CREATE.S", {"name": "S", "num_replicas": 2})
    assert not any(server.running for server in cluster.servers)


def test_a_cluster_without_jetstream_forwards_messages() -> None:
    with run_cluster(2, jetstream=False) as cluster:
        one, other = cluster.servers
        with RawClient(one.port) as receiver, RawClient(other.port) as sender:
            receiver.send(b"SUB a 1\r\n")
            receiver.ping()

            def answered() -> bool:
                # Interest crosses the route a moment after the PONG.
                sender.send(b"PUB a 1\r\nx\r\n")
                sender.ping()
                receiver.send(b"PING\r\n")
                if receiver.line() == b"PONG":
                    return False
                assert receiver.line() == b"x"
                return True

            wait_until(answered, "a message crossed the route")


def test_a_cluster_that_cannot_start_shows_a_log_and_leaves_nothing() -> None:
    cluster = Cluster(3, config="unknown_thing: 1")
    with pytest.raises(ServerStartError, match="unknown_thing"):
        cluster.start()
    assert not any(server.running for server in cluster.servers)
    assert all(server.config_file is None for server in cluster.servers)


def test_routes_need_the_secret_of_the_cluster(cluster: Cluster) -> None:
    member = cluster.servers[0].options.cluster
    assert member is not None
    assert member.secret not in repr(cluster.servers[0].options)
    with pytest.raises((PermissionError, ConnectionError)):
        RawClient(member.port)
