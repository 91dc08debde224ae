"""Who leads a stream or a consumer of a cluster. During an election nobody answers, or nobody knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from jetspark import JetStreamUnavailable, Timeout
from jetspark.jetstream.model.info import ConsumerInfo, StreamInfo
from jetspark.jetstream.stream import Stream
from jetspark.server import Cluster, Server

__all__ = ["leader_of", "leader_of_now", "replace_leaders", "step_down"]

#: Seconds for an election. An answer that a leader took along costs 30 of them.
_LONG = 100.0


async def leader_of(info: Callable[[], Awaitable[StreamInfo | ConsumerInfo]], cluster: Cluster) -> Server:
    """Wait until the server that answers knows its leader."""
    async with asyncio.timeout(_LONG):
        while True:
            with suppress(Timeout, JetStreamUnavailable):
                found = _named(await info(), cluster)
                if found is not None:
                    return found
            await asyncio.sleep(0.01)


async def replace_leaders(stream: Stream, cluster: Cluster) -> None:
    """Let the leader of a stream step down, kill the next one, and start it again when there is another."""
    await step_down(stream.stepdown_leader)
    leader = await leader_of(stream.info, cluster)
    leader.kill()
    async with asyncio.timeout(_LONG):
        while await leader_of(stream.info, cluster) is leader:
            await asyncio.sleep(0.05)
    await asyncio.to_thread(leader.start)


def leader_of_now(info: Callable[[], StreamInfo], cluster: Cluster) -> Server:
    """`leader_of` for threads."""
    deadline = time.monotonic() + _LONG
    while True:
        with suppress(Timeout, JetStreamUnavailable):
            found = _named(info(), cluster)
            if found is not None:
                return found
        assert time.monotonic() < deadline, "no leader"
        time.sleep(0.01)


async def step_down(ask: Callable[[], Awaitable[None]]) -> None:
    """Ask a leader to step down until one hears it. It may do it without an answer."""
    async with asyncio.timeout(_LONG):
        while True:
            try:
                with suppress(Timeout):
                    await ask()
                return
            except JetStreamUnavailable:
                await asyncio.sleep(0.01)


def _named(info: StreamInfo | ConsumerInfo, cluster: Cluster) -> Server | None:
    name = info.cluster.leader if info.cluster is not None else None
    return next((member for member in cluster.servers if member.name == name), None)
