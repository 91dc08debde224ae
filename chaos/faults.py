"""What is done to servers and connections. `FAULTS` lists it; a new fault is a function and a row."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

from chaos.site import STREAM, Place, Site
from jetspark import Error
from jetspark.server import Server

__all__ = ["FAULTS", "Fault", "Lane"]


class Lane(Enum):
    """Faults of one lane wait for each other; those of different lanes overlap."""

    SERVERS = auto()
    NETWORK = auto()
    LEADERS = auto()


@dataclass(frozen=True)
class Fault:
    """`run(site, seconds, random)` breaks something, waits, and repairs it."""

    run: Callable[[Site, float, random.Random], Awaitable[None]]
    lane: Lane
    #: The shortest and the longest duration.
    seconds: tuple[float, float]
    places: tuple[Place, ...] = (Place.SERVER, Place.CLUSTER)
    #: Whether a server may forget what a consumer has delivered.
    forgetful: bool = True


async def _victim(site: Site, chance: random.Random) -> Server:
    """The leader of the stream, or any server."""
    return await site.leader() if chance.random() < 0.5 else chance.choice(site.servers)


async def kill(site: Site, seconds: float, chance: random.Random) -> None:
    """SIGKILL, and a start on the same store."""
    server = await _victim(site, chance)
    await site.kill(server)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(server.start)


async def pause(site: Site, seconds: float, chance: random.Random) -> None:
    """SIGSTOP: connections stay open, and nobody answers."""
    server = await _victim(site, chance)
    site.pause(server)
    await asyncio.sleep(seconds)
    site.resume(server)


async def stop_followers(site: Site, seconds: float, chance: random.Random) -> None:
    """SIGSTOP to all but the leader: it accepts messages and cannot commit them."""
    leader = await site.leader()
    followers = [server for server in site.servers if server is not leader]
    for server in followers:
        site.pause(server)
    await asyncio.sleep(seconds)
    for server in followers:
        site.resume(server)


async def lame_duck(site: Site, seconds: float, chance: random.Random) -> None:
    """A server asks its clients to leave, ends and comes back."""
    server = chance.choice(site.servers)
    if server.running:
        server.lame_duck()
    await asyncio.sleep(seconds)
    await site.kill(server)
    await asyncio.to_thread(server.start)


async def stream_stepdown(site: Site, seconds: float, chance: random.Random) -> None:
    with suppress(Error):
        await site.js.stepdown_stream_leader(STREAM)


async def consumer_stepdown(site: Site, seconds: float, chance: random.Random) -> None:
    """The leaders of all durable consumers step down."""
    with suppress(Error):
        async for info in site.js.consumers(STREAM):
            if info.config.durable_name:
                with suppress(Error):
                    await site.js.stepdown_consumer_leader(STREAM, info.name)


async def delete_ordered(site: Site, seconds: float, chance: random.Random) -> None:
    """Delete the consumers behind ordered readers, which must go on with others."""
    with suppress(Error):
        async for name in site.js.consumer_names(STREAM):
            if name.startswith("ordered"):
                with suppress(Error):
                    await site.js.delete_consumer(STREAM, name)


async def cut(site: Site, seconds: float, chance: random.Random) -> None:
    """Reset all connections, three times."""
    for _ in range(3):
        for proxy in site.proxies:
            proxy.cut()
        await asyncio.sleep(seconds / 3)


async def refuse(site: Site, seconds: float, chance: random.Random) -> None:
    """Reset all connections, and refuse new ones."""
    for proxy in site.proxies:
        proxy.refuse()
        proxy.cut()
    await asyncio.sleep(seconds)
    for proxy in site.proxies:
        proxy.accept()


async def half_open(site: Site, seconds: float, chance: random.Random) -> None:
    """Connections stay open and carry nothing. At the end what was held back is lost, or arrives late."""
    stalled = site.proxies if chance.random() < 0.5 else [chance.choice(site.proxies)]
    for proxy in stalled:
        proxy.stall()
    await asyncio.sleep(seconds)
    lost = chance.random() < 0.5
    for proxy in stalled:
        if lost:
            proxy.cut()
        proxy.unstall()


async def slow(site: Site, seconds: float, chance: random.Random) -> None:
    """Every chunk takes its time."""
    for proxy in site.proxies:
        proxy.delay(chance.uniform(0.005, 0.1))
    await asyncio.sleep(seconds)
    for proxy in site.proxies:
        proxy.delay(0.0)


_CLUSTER = (Place.CLUSTER,)

FAULTS: dict[str, Fault] = {
    "kill": Fault(kill, Lane.SERVERS, (0.2, 4.0)),
    "pause": Fault(pause, Lane.SERVERS, (0.3, 6.0)),
    "stop-followers": Fault(stop_followers, Lane.SERVERS, (0.5, 9.0), _CLUSTER),
    "lame-duck": Fault(lame_duck, Lane.SERVERS, (0.5, 3.0), _CLUSTER),
    "stream-stepdown": Fault(stream_stepdown, Lane.LEADERS, (0.0, 0.0), _CLUSTER),
    "consumer-stepdown": Fault(consumer_stepdown, Lane.LEADERS, (0.0, 0.0), _CLUSTER),
    "delete-ordered": Fault(delete_ordered, Lane.LEADERS, (0.0, 0.0), forgetful=False),
    "cut": Fault(cut, Lane.NETWORK, (0.3, 2.0), forgetful=False),
    "refuse": Fault(refuse, Lane.NETWORK, (0.3, 7.0), forgetful=False),
    "half-open": Fault(half_open, Lane.NETWORK, (0.5, 8.0), forgetful=False),
    "slow": Fault(slow, Lane.NETWORK, (0.5, 4.0), forgetful=False),
}
