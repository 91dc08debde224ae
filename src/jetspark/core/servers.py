"""The servers a connection may use: their URLs, which one is next, and how long to wait before it.

Pure: the caller passes the time and the random numbers.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from urllib.parse import SplitResult, unquote, urlsplit

from jetspark.errors import UsageError

__all__ = ["DEFAULT_URL", "PoolServer", "ServerPool", "parse_servers", "shown_url", "split_url"]

DEFAULT_URL = "nats://127.0.0.1:4222"
#: The schemes, and the port of a URL without one.
_PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}
#: Most servers that are discovered. Each that cannot be reached delays a reconnect.
MAX_DISCOVERED = 256
#: A scheme and a host, then a port.
_ADDRESS = re.compile(r"((?:\w+://)?(?:\[[0-9A-Fa-f:.]*\]?|[^:]*))(?::\d+)?")


@dataclasses.dataclass
class PoolServer:
    """One server of the pool, and its failures."""

    host: str
    port: int
    tls: bool = False
    user: str | None = dataclasses.field(default=None, repr=False)
    password: str | None = dataclasses.field(default=None, repr=False)
    websocket: bool = False
    #: Path and query of a WebSocket URL.
    path: str = ""
    #: The name that its certificate must have: the one the user gave, also for discovered servers.
    tls_name: str = ""
    discovered: bool = False
    #: Consecutive attempts that failed, and when the last one began.
    failures: int = 0
    last_attempt: float = float("-inf")
    #: The last authorization error; the same twice in a row is final.
    auth_error: str | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def common_name(self) -> str:
        """The name that the certificates of servers it lists must have too; empty for an IP address."""
        return "" if _is_ip(self.tls_name) else self.tls_name

    @property
    def url(self) -> str:
        """The URL without user info."""
        if self.websocket:
            return f"{'wss' if self.tls else 'ws'}://{self.address}{self.path}"
        return f"{'tls' if self.tls else 'nats'}://{self.address}"


def parse_servers(servers: str | Iterable[str]) -> list[PoolServer]:
    """Parse URLs: `nats://`, `tls://`, `ws://`, `wss://`, `host:port`; a list, or one string with commas.

    Raises `UsageError` that shows the bad URL without its user info.
    """
    if isinstance(servers, str):
        servers = servers.split(",")
    elif isinstance(servers, bytes) or not isinstance(servers, Iterable):
        raise UsageError(f"servers must be URLs, not {type(servers).__name__}")
    parsed = [_parse_url(url) for url in servers]
    if not parsed:
        raise UsageError(f"servers is empty; give at least one URL like {DEFAULT_URL}")
    return parsed


def _parse_url(url: str) -> PoolServer:
    if not isinstance(url, str):
        raise UsageError(f"servers must be URLs, not {type(url).__name__}")
    url = url.strip()
    wrong = UsageError(f"servers: {shown_url(url)!r} is not a URL like {DEFAULT_URL}")
    if not url or any(ord(character) <= 32 for character in url):
        raise wrong
    split = split_url(url if "://" in url else f"nats://{url}")
    if split is None:
        raise wrong
    parts, host, port = split
    if parts.scheme not in _PORTS:
        raise UsageError(
            f"servers: {shown_url(url)!r} has the scheme {parts.scheme!r}; use nats, tls, ws or wss"
        )
    websocket = parts.scheme in ("ws", "wss")
    path = "" if parts.path == "/" else parts.path + (f"?{parts.query}" if parts.query else "")
    if not host or port == 0 or parts.fragment or not path.isascii() or (path and not websocket):
        raise wrong
    return PoolServer(
        host=host,
        port=port or _PORTS[parts.scheme],
        tls=parts.scheme in ("tls", "wss"),
        websocket=websocket,
        path=path,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password is not None else None,
        tls_name=host,
    )


def split_url(url: str) -> tuple[SplitResult, str, int | None] | None:
    """The parts of a URL, its host and port; None if it is invalid: an error would quote a password."""
    with suppress(ValueError):
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # Resolving it would raise later.
        return parts, host, port
    return None


def shown_url(url: str) -> str:
    """The part of a URL that an error may show: no user info, and nothing that may be part of a password."""
    shown = url.rpartition("@")[2]
    found = _ADDRESS.match(shown)
    return shown if found is None or found.end() == len(shown) else f"{found[1]}:..."


class ServerPool:
    """The servers in the order in which they are tried; the one in use is last."""

    def __init__(
        self,
        servers: list[PoolServer],
        *,
        wait: float,
        max_wait: float,
        max_attempts: int,
        delay: Callable[[int], float] | None = None,
    ) -> None:
        """`delay`, called with the failures of a server, replaces the wait before it."""
        self._servers = list(servers)
        self._wait = wait
        self._max_wait = max_wait
        self._max_attempts = max_attempts
        self._delay = delay

    def __len__(self) -> int:
        return len(self._servers)

    def __iter__(self) -> Iterator[PoolServer]:
        return iter(tuple(self._servers))

    def shuffle(self, random: Callable[[], float]) -> None:
        """Put the servers in random order, so that clients spread over a cluster."""
        self._servers.sort(key=lambda _: random())

    def next(self, now: float, jitter: float) -> tuple[PoolServer, float] | None:
        """The server to try and the seconds to wait before; None when the pool is empty.

        `jitter` in [0, 1) spreads the clients of a server that went away: a wait is between half and all of
        `wait`, doubled by every failure up to `max_wait`. A server that was not tried yet needs no wait.
        """
        if not self._servers:
            return None
        server = self._servers.pop(0)
        self._servers.append(server)
        if self._delay is not None:
            wait = self._delay(server.failures)
        else:
            wait = min(self._wait * 2 ** min(server.failures, 32), self._max_wait) * (0.5 + jitter / 2)
        return server, max(0.0, server.last_attempt + wait - now)

    def succeeded(self, server: PoolServer) -> None:
        """Note that a connection to `server` is established."""
        server.failures = 0
        server.auth_error = None
        if server in self._servers:
            self._servers.remove(server)
            self._servers.append(server)

    def failed(self, server: PoolServer) -> None:
        """Count a failed attempt; after `max_attempts` in a row the server is removed (-1: never)."""
        server.failures += 1
        if 0 <= self._max_attempts <= server.failures and server in self._servers:
            self._servers.remove(server)

    def replace(self, servers: list[PoolServer]) -> None:
        """Use other servers. One that was known keeps the count of its failures and its last attempt."""
        known = {server.address: server for server in self._servers}
        for server in servers:
            before = known.get(server.address)
            if before is not None:
                server.failures, server.last_attempt = before.failures, before.last_attempt
        self._servers = list(servers)

    def discover(self, addresses: list[str], current: PoolServer) -> list[str]:
        """Add the servers that INFO lists, up to a limit for all discovered ones; returns the new addresses.

        Discovered servers that INFO no longer lists are removed. New ones inherit from `current`: its user
        info, its TLS setting, and, unless it is an IP address, the name to check certificates against.
        """
        known = {server.address for server in self._servers}
        listed = set(addresses)
        self._servers = [
            server
            for server in self._servers
            if not server.discovered or server is current or server.address in listed
        ]
        room = MAX_DISCOVERED - sum(server.discovered for server in self._servers)
        fresh: dict[str, PoolServer] = {}
        for address in addresses:
            if len(fresh) >= room:
                break
            if address in known or address in fresh:
                continue
            try:
                server = _parse_url(address)
            except UsageError:
                continue
            server.discovered = True
            server.tls, server.websocket, server.path = current.tls, current.websocket, current.path
            server.user, server.password = current.user, current.password
            server.tls_name = current.common_name or server.tls_name
            fresh[address] = server
        self._servers[:0] = reversed(fresh.values())
        return list(fresh)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
