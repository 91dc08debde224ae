"""Several nats-servers as one cluster, with JetStream over all of them."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Self, Unpack

from jetspark.errors import ServerStartError, UsageError
from jetspark.server.options import Member, OptionNames, Options
from jetspark.server.ports import free_ports
from jetspark.server.probe import can_replicate, credentials
from jetspark.server.process import Server
from jetspark.server.ready import POLL, last_lines

__all__ = ["Cluster", "run_cluster"]

_LEADER = re.compile(
    r"Self is new JetStream cluster metadata leader|JetStream cluster new metadata leader: \S"
)
_ATTEMPTS = 5
_READY_TIMEOUT = 60.0  # seconds; a failed election is repeated after 4 to 9
_PROBE_TIMEOUT = 2.0  # seconds; an answer takes about 0.1


def run_cluster(n: int = 3, **options: Unpack[OptionNames]) -> Cluster:
    """Start `n` servers on 127.0.0.1 and return when they form a cluster that can replicate.

    The keywords are the fields of `jetspark.server.Options`. `name` names the cluster, and the servers
    after it; `store_dir` gets a directory for each server. Blocks for some tenths of a second: `async
    with Cluster(...)` does not.

    Raises UsageError for a bad option, ServerNotFound without an executable and ServerStartError, with a
    log, when the cluster does not form within `ready_timeout` seconds, 60 unless given.
    """
    cluster = Cluster(n, **options)
    cluster.start()
    return cluster


class Cluster:
    """Servers in a full mesh. Created stopped; `start`, `with` or `async with` start it.

    The servers can be killed, paused and started one by one: `cluster.servers[0].kill()`.
    """

    def __init__(self, n: int = 3, **options: Unpack[OptionNames]) -> None:
        if n < 2:
            raise UsageError(f"n must be 2 or more servers, not {n}")
        options.setdefault("ready_timeout", _READY_TIMEOUT)
        checked = Options().change(options)
        for option in ("port", "cluster"):
            if getattr(checked, option):
                raise UsageError(f"{option} cannot be given to a cluster: each server has its own")
        self._n = n
        self._options = options
        self._ready_timeout = checked.ready_timeout
        self._jetstream = checked.jetstream
        self._name = checked.name or f"jetspark-{secrets.token_hex(4)}"
        self._servers = self._make_servers()
        self._has_run = False  # if not, it may still get other ports

    @property
    def name(self) -> str:
        return self._name

    @property
    def servers(self) -> list[Server]:
        return self._servers

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self._servers]

    @property
    def url(self) -> str:
        """All URLs, separated by commas."""
        return ",".join(self.urls)

    def __repr__(self) -> str:
        running = sum(server.running for server in self._servers)
        return f"<Cluster {self._name} {running} of {self._n} running>"

    def start(self) -> None:
        """Start all servers that do not run, at the same time, and wait until they form a cluster.

        Raises ServerNotFound and ServerStartError; then nothing is left running.
        """
        first = not self._has_run
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start()
                self._has_run = True
                return
            except BaseException as error:
                if not first:
                    self.kill()
                    raise
                self.stop()
                taken = isinstance(error, ServerStartError) and "address already in use" in str(error)
                if not taken or attempt == _ATTEMPTS:
                    raise
                # Another process took a route port between the choice and the server's bind.
                self._servers = self._make_servers()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop all servers, as `Server.stop` does."""
        for server in self._servers:
            server.stop(timeout)

    def kill(self) -> None:
        """Send SIGKILL to all servers. Their stores stay; `start` uses them again."""
        for server in self._servers:
            server.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        if not all(server.running for server in self._servers):
            await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.stop)

    def _make_servers(self) -> list[Server]:
        ports = free_ports(self._n)
        secret = secrets.token_hex(16)
        servers = []
        for number, port in enumerate(ports, start=1):
            options = OptionNames(**self._options)
            options["name"] = f"{self._name}-{number}"
            options["cluster"] = Member(cluster=self._name, port=port, ports=ports, secret=secret)
            if store_dir := self._options.get("store_dir"):
                options["store_dir"] = os.path.join(store_dir, f"server-{number}")
            servers.append(Server(**options))
        return servers

    def _start(self) -> None:
        deadline = time.monotonic() + self._ready_timeout
        starting = [server for server in self._servers if not server.running]
        for server in starting:
            server.spawn()
        for server in starting:
            server.wait_ready(deadline)
        for server in starting:
            self._wait_until(partial(self._formed, server, deadline), server, deadline)
        login = credentials(self._servers[0].options)
        if self._jetstream and login is not None:
            server = self._servers[0]
            asking = partial(can_replicate, server.port, self._n, login, timeout=_PROBE_TIMEOUT)
            self._wait_until(asking, server, deadline)

    def _wait_until(self, done: Callable[[], bool], server: Server, deadline: float) -> None:
        while not done():
            if time.monotonic() > deadline:
                raise ServerStartError(
                    f"cluster {self._name} did not form within {self._ready_timeout:g} seconds. "
                    f"The log of {server.name}:\n{last_lines(server.log_since_start())}"
                )
            time.sleep(POLL)

    def _formed(self, server: Server, deadline: float) -> bool:
        """Whether `server` knows the JetStream leader and has routes to all others.

        The leader is read from the log, which needs no credentials. INFO, which every client gets, lists the
        addresses of the other servers to which there are routes.
        """
        if self._jetstream and not _LEADER.search(server.log_since_start()):
            return False
        info = server.info(deadline)
        known = info.get("connect_urls", [])
        return not info or (isinstance(known, list) and len(known) >= self._n)
