"""The servers a connection may use: their URLs, which one is next, and how long to wait before it.

Pure: the clock and the randomness come from outside.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import random
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from jetspark.errors import UsageError

__all__ = ["DEFAULT_URL", "Server", "ServerPool", "parse_servers"]

DEFAULT_URL = "nats://127.0.0.1:4222"
_DEFAULT_PORT = 4222


@dataclasses.dataclass
class Server:
    """One server of the pool, with what happened to it."""

    host: str
    port: int
    tls: bool = False
    user: str | None = dataclasses.field(default=None, repr=False)
    password: str | None = dataclasses.field(default=None, repr=False)
    #: The name that its certificate must carry: the one the user gave, also for discovered servers.
    tls_name: str = ""
    discovered: bool = False
    #: Consecutive attempts that failed, and when the last one began.
    failures: int = 0
    last_attempt: float = float("-inf")
    #: The text of the last refusal of our credentials; the same twice in a row is final.
    auth_error: str | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL without user info."""
        return f"{'tls' if self.tls else 'nats'}://{self.address}"


def parse_servers(servers: str | Iterable[str]) -> list[Server]:
    """Read URLs: `nats://`, `tls://`, `host`, `host:port`; a list, or one string with commas.

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


def _parse_url(url: str) -> Server:
    if not isinstance(url, str):
        raise UsageError(f"servers must be URLs, not {type(url).__name__}")
    url = url.strip()
    wrong = UsageError(f"servers: {_shown(url)!r} is not a URL like {DEFAULT_URL}")
    if not url or any(ord(character) <= 32 for character in url):
        raise wrong
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # what resolving it begins with
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("nats", "tls"):
        raise UsageError(
            f"servers: {_shown(url)!r} has the scheme {parts.scheme!r}; nats and tls are supported"
        )
    if not host or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong
    return Server(
        host=host,
        port=port or _DEFAULT_PORT,
        tls=parts.scheme == "tls",
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password is not None else None,
        tls_name=host,
    )


def _shown(url: str) -> str:
    """As much of a URL as an error may show: no user info, and no port that may be half of a password."""
    shown = url.rpartition("@")[2]
    before, colon, port = shown.rpartition(":")
    return shown if not colon or port.isdigit() or port.startswith("//") else f"{before}:..."


class ServerPool:
    """The servers in the order in which they are tried; the one in use stands last."""

    def __init__(self, servers: list[Server], *, wait: float, max_wait: float, max_attempts: int) -> None:
        self._servers = list(servers)
        self._wait = wait
        self._max_wait = max_wait
        self._max_attempts = max_attempts

    def __len__(self) -> int:
        return len(self._servers)

    def __iter__(self) -> Iterator[Server]:
        return iter(tuple(self._servers))

    def shuffle(self) -> None:
        """Mix the order, so that a fleet of clients spreads over a cluster."""
        random.shuffle(self._servers)

    def next(self, now: float, jitter: float) -> tuple[Server, float] | None:
        """The server to try and the seconds to wait before; None when none is left.

        `jitter` in [0, 1) spreads the clients of a server that went away: waits are between half and all
        of `wait` doubled by every failure up to `max_wait`. A server that was not tried yet needs no wait.
        """
        if not self._servers:
            return None
        server = self._servers.pop(0)
        self._servers.append(server)
        wait = min(self._wait * 2 ** min(server.failures, 32), self._max_wait) * (0.5 + jitter / 2)
        return server, max(0.0, server.last_attempt + wait - now)

    def succeeded(self, server: Server) -> None:
        """A connection to `server` stands."""
        server.failures = 0
        server.auth_error = None
        self._move_last(server)

    def failed(self, server: Server) -> None:
        """An attempt failed; after `max_attempts` in a row the server is given up (-1: never)."""
        server.failures += 1
        if 0 <= self._max_attempts <= server.failures and server in self._servers:
            self._servers.remove(server)

    def discover(self, addresses: list[str], current: Server) -> list[str]:
        """Take over what INFO lists; returns the addresses that are new.

        Servers that INFO brought and no longer lists go. New ones inherit from `current`, over which they
        became known: its user info, TLS, and, when it is a name, the name to check certificates against.
        """
        known = {server.address for server in self._servers}
        self._servers = [
            server
            for server in self._servers
            if not server.discovered or server is current or server.address in addresses
        ]
        fresh = []
        for address in addresses:
            if address in known:
                continue
            try:
                server = _parse_url(address)
            except UsageError:
                continue
            server.discovered = True
            server.tls = current.tls
            server.user, server.password = current.user, current.password
            if not _is_ip(current.tls_name):
                server.tls_name = current.tls_name
            self._servers.insert(0, server)
            known.add(address)
            fresh.append(address)
        return fresh

    def _move_last(self, server: Server) -> None:
        if server in self._servers:
            self._servers.remove(server)
            self._servers.append(server)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
