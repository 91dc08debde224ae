"""`connect`, the entry point of the blocking API. Twin of `client.py`."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable

from jetspark import client as aio
from jetspark.blocking.connection import Connection
from jetspark.blocking.mirror import mirrors
from jetspark.blocking.threads.bridge import Bridge
from jetspark.core.events import Listener
from jetspark.core.options import Options, Path, Secret
from jetspark.core.servers import DEFAULT_URL, parse_servers

__all__ = ["connect"]


@mirrors(aio.connect)
def connect(
    servers: str | Iterable[str] = DEFAULT_URL,
    *,
    name: str = "",
    connect_timeout: float = 5.0,
    request_timeout: float = 5.0,
    reconnect_wait: float = 0.1,
    max_reconnect_wait: float = 2.0,
    max_reconnect_attempts: int = -1,
    ping_interval: float = 20.0,
    max_outstanding_pings: int = 2,
    drain_timeout: float = 30.0,
    pending_size: int = 32 * 1024 * 1024,
    inbox_prefix: str = "_INBOX",
    no_echo: bool = False,
    shuffle_servers: bool = True,
    discover_servers: bool = True,
    user: Secret | None = None,
    password: Secret | None = None,
    token: Secret | None = None,
    nkey_seed: Secret | None = None,
    nkey_seed_file: Path | None = None,
    credentials_file: Path | None = None,
    user_jwt: Callable[[], str] | None = None,
    sign: Callable[[bytes], bytes | Awaitable[bytes]] | None = None,
    tls: ssl.SSLContext | bool | None = None,
    tls_ca_file: Path | None = None,
    tls_cert_file: Path | None = None,
    tls_key_file: Path | None = None,
    tls_hostname: str | None = None,
    tls_handshake_first: bool = False,
    on_disconnected: Listener | None = None,
    on_reconnected: Listener | None = None,
    on_closed: Listener | None = None,
    on_discovered: Listener | None = None,
    on_lame_duck: Listener | None = None,
    on_slow_consumer: Listener | None = None,
    on_error: Listener | None = None,
) -> Connection:
    options = dict(locals())
    found = parse_servers(options.pop("servers"))
    return Connection(Bridge(found, Options(**options)))
