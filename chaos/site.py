"""The servers of a cell, one or a cluster of three, each behind a proxy; and a way around the proxies.

Workloads connect through the proxies. The cell itself uses `control`, a connection that no network fault
reaches, to create, to look and to step leaders down.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from enum import StrEnum
from typing import Self

from tests.support.proxy import TCPProxy

from jetspark import Connection, Error, JetStream, StreamConfig, connect
from jetspark.server import Cluster, Server

__all__ = ["STREAM", "SUBJECT", "Place", "Site"]

STREAM = "EVENTS"
SUBJECT = "events.x"


class Place(StrEnum):
    """Where a cell runs."""

    SERVER = "server"
    CLUSTER = "cluster"


class Site:
    """Servers and proxies; an async context manager."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._cluster = Cluster(3) if place is Place.CLUSTER else None
        self.servers: list[Server] = [Server()]
        self.proxies: list[TCPProxy] = []
        self._paused: set[Server] = set()
        self._stack = AsyncExitStack()
        self.control: Connection

    @property
    def urls(self) -> list[str]:
        """Where workloads connect."""
        return [proxy.url for proxy in self.proxies]

    @property
    def replicas(self) -> int:
        return len(self.servers)

    @property
    def js(self) -> JetStream:
        """JetStream of `control`, with a short patience."""
        return self.control.jetstream(timeout=2.0)

    async def __aenter__(self) -> Self:
        async with self._stack as stack:
            if self._cluster is not None:
                await stack.enter_async_context(self._cluster)
                self.servers = self._cluster.servers
            else:
                await stack.enter_async_context(self.servers[0])
            for server in self.servers:
                self.proxies.append(await stack.enter_async_context(TCPProxy(server.port)))
            self.control = await stack.enter_async_context(
                connect(
                    [server.url for server in self.servers],
                    connect_timeout=10.0,
                    reconnect_wait=0.05,
                    max_reconnect_wait=0.2,
                    ping_interval=1.0,
                    name="control",
                )
            )
            await self._create_stream()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for server in self._paused:
            server.resume()
        await self._stack.aclose()

    async def _create_stream(self) -> None:
        config = StreamConfig(
            name=STREAM,
            subjects=["events.>"],
            num_replicas=self.replicas,
            allow_direct=True,
            allow_atomic=True,
        )
        await self.control.jetstream(timeout=30.0).create_stream(config)

    # --- faults

    async def kill(self, server: Server) -> None:
        self._paused.discard(server)
        await asyncio.to_thread(server.kill)

    def pause(self, server: Server) -> None:
        if server.running:
            server.pause()
            self._paused.add(server)

    def resume(self, server: Server) -> None:
        if server in self._paused:
            self._paused.discard(server)
            server.resume()

    async def leader(self) -> Server:
        """The server that leads the stream; any, while that is unknown."""
        with suppress(Error):
            info = (await (await self.js.get_stream(STREAM)).info()).cluster
            for server in self.servers:
                if info is not None and server.name == info.leader:
                    return server
        return self.servers[0]

    async def heal(self) -> None:
        """End all faults: every server runs, and the proxies forward everything at once."""
        for server in list(self._paused):
            self.resume(server)
        for proxy in self.proxies:
            proxy.delay(0.0)
            proxy.unstall()
            proxy.accept()
        if self._cluster is not None:
            await asyncio.to_thread(self._cluster.start)
        else:
            await asyncio.to_thread(self.servers[0].start)
