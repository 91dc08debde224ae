"""`connect`, whose signature is the reference of all options, and `from_env`.

Its connection is the one of `core` with a method for JetStream.
"""

from __future__ import annotations

import inspect
import os
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, Final, ParamSpec

from jetspark.core import connection
from jetspark.core.contexts import load
from jetspark.core.environment import combined, environment_options
from jetspark.core.events import Listener
from jetspark.core.options import ConnectOptions, Credentials, Dialer, Path, Secret, WebSocketHeaders
from jetspark.core.servers import DEFAULT_URL as _DEFAULT_URL
from jetspark.core.servers import parse_servers
from jetspark.jetstream.context import JetStream

__all__ = ["Connecting", "Connection", "connect", "from_env"]

_P = ParamSpec("_P")


class Connection(connection.Connection):
    """A connection to NATS. Made by `jetspark.connect`; belongs to the event loop that made it."""

    def jetstream(
        self, *, domain: str | None = None, api_prefix: str | None = None, timeout: float = 5.0
    ) -> JetStream:
        """JetStream through this connection; as many contexts as needed, they are cheap.

        `domain` names a JetStream domain, `api_prefix` replaces `$JS.API` where an account imports the API of
        another; by default the options of the connection apply. Calls end within `timeout` seconds. Raises
        `UsageError`; sends no request.
        """
        if domain is None and api_prefix is None:
            domain, api_prefix = self.options.jetstream_domain, self.options.jetstream_api_prefix
        return self.class_of(JetStream)(self, domain=domain, api_prefix=api_prefix, timeout=timeout)


class Connecting:
    """A connection that is not open yet: await it, or use `async with`, which closes it at the end."""

    def __init__(self, servers: str | Iterable[str], options: ConnectOptions) -> None:
        self._servers = parse_servers(servers)
        self._options = options
        self._connection: Connection | None = None

    async def _open(self) -> Connection:
        connection = Connection(self._servers, self._options)
        await connection.open()
        return connection

    def __await__(self) -> Generator[object, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._open()
        return self._connection

    async def __aexit__(self, *exc: object) -> None:
        assert self._connection is not None
        await self._connection.close()


def connect(
    servers: str | Iterable[str] | None = None,
    *,
    context: str | None = None,
    name: str = "",
    connect_timeout: float = 5.0,
    request_timeout: float = 5.0,
    reconnect_wait: float = 0.1,
    max_reconnect_wait: float = 2.0,
    max_reconnect_attempts: int = -1,
    reconnect_delay: Callable[[int], float] | None = None,
    retry_on_failed_connect: bool = False,
    ping_interval: float = 4.0,
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
    credentials: Credentials | None = None,
    user_jwt: Callable[[], str] | None = None,
    sign: Callable[[bytes], bytes | Awaitable[bytes]] | None = None,
    tls: ssl.SSLContext | bool | None = None,
    tls_ca_file: Path | None = None,
    tls_cert_file: Path | None = None,
    tls_key_file: Path | None = None,
    tls_hostname: str | None = None,
    tls_handshake_first: bool = False,
    proxy: str | None = None,
    dialer: Dialer | None = None,
    websocket_headers: WebSocketHeaders | None = None,
    jetstream_domain: str | None = None,
    jetstream_api_prefix: str | None = None,
    on_connected: Listener | None = None,
    on_disconnected: Listener | None = None,
    on_reconnected: Listener | None = None,
    on_closed: Listener | None = None,
    on_discovered: Listener | None = None,
    on_lame_duck: Listener | None = None,
    on_slow_consumer: Listener | None = None,
    on_error: Listener | None = None,
) -> Connecting:
    """Connect to NATS: `nc = await connect(url)`, or `async with connect(url) as nc`.

    An option that is None, its default, is not used.

    Args:
        servers: URLs (`nats://host:port`, `tls://...`, `ws://...`, `wss://...`, `host:port`), one, several,
            or one text with commas; by default `nats://127.0.0.1:4222`. With `tls://` and `wss://` the
            connection is encrypted or fails. The other servers of the cluster are discovered.
        context: A context of the `nats` CLI, for settings that are not given as arguments. Its credentials
            are ignored if any are given.
        name: The name of this connection in the server's monitoring.
        connect_timeout: Seconds for one attempt: TCP, TLS and authentication.
        request_timeout: Seconds that `request`, `flush` and `next` wait by default.
        reconnect_wait: Seconds before a server is tried again; doubled with each failure, and shortened
            at random by up to half.
        max_reconnect_wait: The longest such wait.
        max_reconnect_attempts: Failures in a row after which a server is removed; -1: never, 0: at once.
        reconnect_delay: A function that replaces both waits: it gets the number of failures of a server in a
            row, returns the seconds from its last attempt to the next, and must not block.
        retry_on_failed_connect: When no server can be reached, return a connection that keeps trying, as
            after a disconnect; `wait_connected()` waits for it. Wrong options and refused credentials still
            raise.
        ping_interval: Seconds between pings, whatever the traffic.
        max_outstanding_pings: Unanswered pings after which a silent connection is considered broken: by
            default after 12 seconds, before publishing gives up. Five times as many while data arrives.
        drain_timeout: Seconds that `drain` takes at most, and that a publisher waits for back-pressure.
        pending_size: Bytes that may wait to be written, above all while the connection is down. More raises
            `OutboundBufferFull`.
        inbox_prefix: The beginning of reply subjects, for accounts that restrict them.
        no_echo: Do not receive what this connection publishes.
        shuffle_servers: Try the servers in random order.
        discover_servers: Learn of further servers from the cluster, which get the same credentials: this
            trusts the servers that list them. At most 256.
        user, password, token: Text, or functions that are called at each connect.
        nkey_seed, nkey_seed_file: The seed of a user nkey, or a file with it, read at each connect.
        credentials_file: A `.creds` file with JWT and seed, read at each connect.
        credentials: The contents of such a file, as text or bytes, or a function that returns them at each
            connect.
        user_jwt, sign: Functions that return the JWT and sign the server's nonce.
        tls: True, or a ready-made `ssl.SSLContext`; False refuses servers that require TLS.
        tls_ca_file, tls_cert_file, tls_key_file: PEM files: trusted roots (by default the system's), and
            the client's own certificate. Read at each connect.
        tls_hostname: The name that the certificate must have, when it is not that of the URL.
        tls_handshake_first: Start TLS before the server sends INFO; the server must be configured so.
        proxy: `socks5://host:port` or `http://host:port`, with `user:password@` if needed. It resolves names.
        dialer: A function that gets host and port and returns a connected `socket.socket`, such as one
            through a tunnel. A plain function runs in a thread. With asyncio, it may be a coroutine function.
        websocket_headers: Headers of the WebSocket upgrade, or a function that returns them at each connect.
        jetstream_domain, jetstream_api_prefix: Defaults of `nc.jetstream()`.
        on_connected, on_disconnected, on_reconnected, on_closed: Functions, called as `jetspark.Event` says.
            With asyncio, they may be coroutine functions.
        on_discovered, on_lame_duck, on_slow_consumer, on_error: The same.

    Raises `UsageError` for bad options, `AuthorizationError`, `TLSError`, `Timeout`, `NoServersError` and
    other kinds of `jetspark.Error`.
    """
    arguments = dict(locals())
    if arguments.pop("context") is not None:
        given = {name: value for name, value in arguments.items() if value is not _DEFAULTS[name]}
        arguments = combined(given, load(context).connect_options())  # type: ignore[arg-type]
    return Connecting(arguments.pop("servers", None) or _DEFAULT_URL, ConnectOptions(**arguments))


_DEFAULTS: Final = {name: each.default for name, each in inspect.signature(connect).parameters.items()}


def _with_environment(function: Callable[_P, Connecting]) -> Callable[_P, Connecting]:
    def from_env(*args: _P.args, **kwargs: _P.kwargs) -> Connecting:
        """`connect` with the variables of the `nats` CLI, where an argument is not given.

        NATS_URL, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT, NATS_KEY,
        NATS_INBOX_PREFIX, NATS_SOCKS_PROXY, NATS_JS_DOMAIN and NATS_JS_API_PREFIX; NATS_CONTEXT names a
        context, for settings that are still missing. Credentials are taken as a whole from the first source
        that has any.
        """
        given: dict[str, Any] = dict(kwargs)
        if args:
            given["servers"] = args[0]
        context = given.pop("context", None) or os.environ.get("NATS_CONTEXT")
        sources = [given, environment_options()]
        if context:
            sources.append(load(context).connect_options())
        return function(**combined(*sources))  # type: ignore[call-arg]

    from_env.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return from_env


from_env = _with_environment(connect)
