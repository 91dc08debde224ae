"""Three servers with WebSocket: they are discovered under those ports, and a client stays with WebSocket."""

from __future__ import annotations

import pytest

from jetspark import Event, connect
from jetspark.server import Cluster
from tests.support.watch import Watch


@pytest.fixture(scope="module")
def nats_cluster_options() -> dict[str, object]:
    return {"jetstream": False, "websocket": True}


async def test_when_its_server_dies_a_client_goes_to_another_through_websocket(
    cluster: Cluster, watch: Watch
) -> None:
    urls = [str(server.websocket_url) for server in cluster.servers]
    async with (
        connect(cluster.servers[1].url) as plain,
        connect(urls[0], reconnect_wait=0.01, **watch.listeners) as nc,
    ):
        assert sorted(nc.servers) == sorted(urls)
        subscription = await nc.subscribe("ws")
        await nc.flush()
        cluster.servers[0].kill()
        await watch.until(Event.DISCONNECTED)
        await nc.publish("ws", b"kept")
        assert (await subscription.next(60)).data == b"kept"
        assert nc.connected_url in urls[1:]
        assert watch.names.count(Event.RECONNECTED) == 1
        # The subscription is known to the other servers, too.
        while not subscription.pending_msgs:
            await plain.publish("ws", b"from TCP")
            await plain.flush()
            await nc.flush()
        assert (await subscription.next(60)).data == b"from TCP"


async def test_a_forced_reconnect_goes_round_the_cluster_through_websocket(cluster: Cluster) -> None:
    urls = {str(server.websocket_url) for server in cluster.servers}
    async with connect(str(cluster.servers[0].websocket_url)) as nc:
        visited = {nc.connected_url}
        for _ in range(2):
            await nc.reconnect(60)
            visited.add(nc.connected_url)
        assert visited == urls
