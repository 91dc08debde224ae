"""The options of a connection, checked at construction.

Durations are seconds. Secrets may be functions, which are called at each connect; files are read at
each connect. No secret is part of the repr.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from jetspark.core.events import Event, Listener
from jetspark.core.numbers import check_count, check_seconds
from jetspark.core.proxy import parse_proxy
from jetspark.errors import UsageError
from jetspark.wire.subjects import check_name, check_subject, check_text

__all__ = [
    "WAYS_TO_AUTHENTICATE",
    "ConnectOptions",
    "Credentials",
    "Dialer",
    "Path",
    "Secret",
    "WebSocketHeaders",
    "check_path",
    "check_websocket_headers",
]

Secret: TypeAlias = str | Callable[[], str]
Credentials: TypeAlias = str | bytes | Callable[[], str | bytes]
#: Returns a connected socket for a host and a port.
Dialer: TypeAlias = Callable[[str, int], socket.socket | Awaitable[socket.socket]]
WebSocketHeaders: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]]
Path: TypeAlias = str | os.PathLike[str]


_PATHS: Final = ("nkey_seed_file", "credentials_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UPGRADE_HEADERS: Final = ("host", "connection", "upgrade", "content-length", "transfer-encoding")
#: Options that exclude each other. A password belongs to `user`, and `sign` to `user_jwt`.
WAYS_TO_AUTHENTICATE: Final = (
    "user",
    "token",
    "nkey_seed",
    "nkey_seed_file",
    "credentials_file",
    "credentials",
    "user_jwt",
)
#: The accepted types of options that are not at their default. `core/numbers.py` checks the numbers.
_KINDS: Final[tuple[tuple[str, Callable[[object], bool], tuple[str, ...]], ...]] = (
    (
        "text",
        lambda value: isinstance(value, str),
        ("name", "tls_hostname", "proxy", "jetstream_domain", "jetstream_api_prefix"),
    ),
    (
        "a mapping or a function",
        lambda value: isinstance(value, Mapping) or callable(value),
        ("websocket_headers",),
    ),
    (
        "True or False",
        lambda value: isinstance(value, bool),
        ("no_echo", "shuffle_servers", "discover_servers", "retry_on_failed_connect", "tls_handshake_first"),
    ),
    (
        "text or a function",
        lambda value: isinstance(value, str) or callable(value),
        ("user", "password", "token", "nkey_seed"),
    ),
    (
        "text, bytes or a function",
        lambda value: isinstance(value, str | bytes) or callable(value),
        ("credentials",),
    ),
    (
        "a path",
        lambda value: isinstance(value, str | os.PathLike),
        _PATHS,
    ),
    ("True, False or an SSLContext", lambda value: isinstance(value, bool | ssl.SSLContext), ("tls",)),
    (
        "a function",
        callable,
        ("reconnect_delay", "dialer", "user_jwt", "sign", *(f"on_{event}" for event in Event)),
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """The options of `jetspark.connect`, which documents them for users."""

    name: str = ""
    connect_timeout: float = 5.0
    request_timeout: float = 5.0
    reconnect_wait: float = 0.1
    max_reconnect_wait: float = 2.0
    max_reconnect_attempts: int = -1
    reconnect_delay: Callable[[int], float] | None = None
    retry_on_failed_connect: bool = False
    ping_interval: float = 4.0
    max_outstanding_pings: int = 2
    drain_timeout: float = 30.0
    pending_size: int = 32 * 1024 * 1024
    inbox_prefix: str = "_INBOX"
    no_echo: bool = False
    shuffle_servers: bool = True
    discover_servers: bool = True

    user: Secret | None = dataclasses.field(default=None, repr=False)
    password: Secret | None = dataclasses.field(default=None, repr=False)
    token: Secret | None = dataclasses.field(default=None, repr=False)
    nkey_seed: Secret | None = dataclasses.field(default=None, repr=False)
    nkey_seed_file: Path | None = None
    credentials_file: Path | None = None
    credentials: Credentials | None = dataclasses.field(default=None, repr=False)
    user_jwt: Callable[[], str] | None = dataclasses.field(default=None, repr=False)
    sign: Callable[[bytes], bytes | Awaitable[bytes]] | None = dataclasses.field(default=None, repr=False)

    tls: ssl.SSLContext | bool | None = None
    tls_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_hostname: str | None = None
    tls_handshake_first: bool = False

    proxy: str | None = dataclasses.field(default=None, repr=False)
    dialer: Dialer | None = None
    websocket_headers: WebSocketHeaders | None = dataclasses.field(default=None, repr=False)

    jetstream_domain: str | None = None
    jetstream_api_prefix: str | None = None

    on_connected: Listener | None = None
    on_disconnected: Listener | None = None
    on_reconnected: Listener | None = None
    on_closed: Listener | None = None
    on_discovered: Listener | None = None
    on_lame_duck: Listener | None = None
    on_slow_consumer: Listener | None = None
    on_error: Listener | None = None

    def __post_init__(self) -> None:
        for kind, fits, options in _KINDS:
            for option in options:
                value = getattr(self, option)
                if value is not getattr(ConnectOptions, option) and not fits(value):
                    # Not shown: it may be a secret.
                    raise UsageError(f"{option} must be {kind}, not {type(value).__name__}")
        for option in (
            "connect_timeout",
            "request_timeout",
            "reconnect_wait",
            "max_reconnect_wait",
            "ping_interval",
            "drain_timeout",
        ):
            check_seconds(option, getattr(self, option))
        check_count("max_outstanding_pings", self.max_outstanding_pings)
        check_count("pending_size", self.pending_size, least=0)
        check_count("max_reconnect_attempts", self.max_reconnect_attempts, least=-1)
        check_subject(self.inbox_prefix, "inbox_prefix")
        _check_line("inbox_prefix", self.inbox_prefix)
        _check_line("name", self.name)
        if self.tls_hostname is not None and not _is_host(self.tls_hostname):
            raise UsageError(f"tls_hostname: {self.tls_hostname!r} is not a host name")
        for option in _PATHS:
            if getattr(self, option) is not None:
                check_path(option, getattr(self, option))
        if self.retry_on_failed_connect and self.max_reconnect_attempts == 0:
            raise UsageError("retry_on_failed_connect needs reconnects: max_reconnect_attempts must not be 0")
        self._check_credentials()
        self._check_tls()
        self._check_way_in()

    def _check_credentials(self) -> None:
        given = [option for option in WAYS_TO_AUTHENTICATE if getattr(self, option) is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other: use one way to authenticate")
        if self.password is not None and self.user is None:
            raise UsageError("password needs user")
        if self.user_jwt is not None and self.sign is None:
            raise UsageError("user_jwt needs sign, which signs the server's nonce")
        if self.sign is not None and self.user_jwt is None:
            raise UsageError("sign needs user_jwt")

    def _check_tls(self) -> None:
        files = [o for o in ("tls_ca_file", "tls_cert_file", "tls_key_file") if getattr(self, o) is not None]
        if self.tls is False and (files or self.tls_handshake_first):
            raise UsageError("tls=False conflicts with the other tls options")
        if isinstance(self.tls, ssl.SSLContext) and files:
            raise UsageError(f"{files[0]} has no effect on a ready-made SSLContext: load it there")
        if self.tls_key_file is not None and self.tls_cert_file is None:
            raise UsageError("tls_key_file needs tls_cert_file")

    def _check_way_in(self) -> None:
        if self.proxy is not None:
            parse_proxy(self.proxy)
            if self.dialer is not None:
                raise UsageError("proxy and dialer exclude each other: the dialer opens the whole way")
        if isinstance(self.websocket_headers, Mapping):
            check_websocket_headers(self.websocket_headers)
        if self.jetstream_domain is not None:
            check_name(self.jetstream_domain, "jetstream_domain")
        if self.jetstream_api_prefix is not None:
            check_subject(self.jetstream_api_prefix.rstrip("."), "jetstream_api_prefix")
        if self.jetstream_domain is not None and self.jetstream_api_prefix is not None:
            raise UsageError("jetstream_domain and jetstream_api_prefix exclude each other")

    @property
    def wants_tls(self) -> bool:
        """Whether the user asked for TLS, so that a connection without it must fail."""
        return bool(self.tls or self.tls_ca_file or self.tls_cert_file or self.tls_handshake_first)


def check_websocket_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers of a WebSocket upgrade. Raises `UsageError`, which shows names only."""
    if not isinstance(headers, Mapping):
        raise UsageError(f"websocket_headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str) or not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"websocket_headers: {name!r} is not a header with text")
        if name.lower() in _UPGRADE_HEADERS or name.lower().startswith("sec-websocket-"):
            raise UsageError(f"websocket_headers: {name} belongs to the WebSocket upgrade itself")
        if any(
            ord(character) < 32 or ord(character) == 127
            for character in check_text(value, "websocket_headers")
        ):
            raise UsageError(f"websocket_headers: {name} contains control characters")
    return list(headers.items())


def _check_line(option: str, text: str) -> None:
    if any(ord(character) < 32 for character in check_text(text, option)):
        raise UsageError(f"{option} contains control characters")


def check_path(option: str, path: Path) -> None:
    """Raise `UsageError` unless `path` can be the name of a file."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"{option} must be a path, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise UsageError(f"{option} must be a path as text, not {type(text).__name__}")
    try:
        valid = "\0" not in text and bool(os.fsencode(text))
    except UnicodeEncodeError:
        valid = False
    if not valid:
        raise UsageError(f"{option}: {text!r} is not the name of a file")


def _is_host(name: str) -> bool:
    # Using another one would raise later.
    try:
        return bool(name.encode("idna")) and not any(ord(character) <= 32 for character in name)
    except UnicodeError:
        return False
