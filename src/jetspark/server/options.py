"""The options of a server, their defaults and their checks. No files, no processes.

Bad values fail at construction with a UsageError that names the option. Durations are in seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypedDict

from jetspark.errors import UsageError

__all__ = ["TLS", "Member", "OptionNames", "Options", "User"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PUBLIC_USER_KEY = re.compile(r"U[A-Z2-7]{55}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RELOADABLE = frozenset({"users", "token", "nkeys", "tls", "max_payload", "config", "debug", "trace"})


@dataclass(frozen=True, kw_only=True)
class User:
    """A user with a password. An allow list left `None` allows everything that is not denied.

    A password that looks like a bcrypt hash (`$2a$...`) is used as one, as nats-server does.
    """

    user: str
    password: str = field(repr=False)
    publish_allow: Sequence[str] | None = None
    publish_deny: Sequence[str] = ()
    subscribe_allow: Sequence[str] | None = None
    subscribe_deny: Sequence[str] = ()
    account: str | None = None
    """The user's account, created if needed, with JetStream enabled. `None`: the global account."""

    def __post_init__(self) -> None:
        _check_text("users: user", self.user)
        _check_text("users: password", self.password)
        if not self.user or not self.password:
            raise UsageError("users: user and password must not be empty")
        for name in ("publish_allow", "publish_deny", "subscribe_allow", "subscribe_deny"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence | None):
                raise UsageError(f"users: {name} must be a list of subjects, not {type(value).__name__}")
            if value is not None and name.endswith("allow") and not value:
                # nats-server reads an empty allow list as no list, which allows everything.
                raise UsageError(f"users: {name} is empty; to allow nothing, deny ['>']")
            for subject in value or ():
                _check_text(f"users: {name}", subject)
        if self.account is not None:
            _check_name("users: account", self.account)


@dataclass(frozen=True, kw_only=True)
class TLS:
    """Certificates of the server. With `verify` clients must show a certificate signed by `ca_file`."""

    cert_file: str | os.PathLike[str]
    key_file: str | os.PathLike[str]
    ca_file: str | os.PathLike[str] | None = None
    verify: bool = False
    handshake_first: bool = False
    """Handshake before INFO instead of after it."""

    def __post_init__(self) -> None:
        if self.verify and self.ca_file is None:
            raise UsageError("tls: verify needs ca_file")
        for name in ("cert_file", "key_file", "ca_file"):
            path = getattr(self, name)
            if path is None:
                continue
            _check_path(f"tls: {name}", path)
            if not os.path.isfile(path):
                raise UsageError(f"tls: {name} {os.fspath(path)!r} is not a file")


@dataclass(frozen=True, kw_only=True)
class Member:
    """Membership in a cluster: where this server listens for routes, and the ports of all members."""

    cluster: str
    port: int
    ports: Sequence[int]
    secret: str = field(repr=False)
    """The password of the routes. Without one any local process could join."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """All options of one server."""

    store_dir: str | os.PathLike[str] | None = None
    """The store of JetStream; created with mode 0700 if missing, and kept. `None`: private and temporary."""
    port: int = 0
    """0: a free port, which the server picks at its first start and keeps."""
    jetstream: bool = True
    name: str | None = None
    """The server's name; `None`: a random one."""
    domain: str | None = None
    """The JetStream domain."""
    sync_interval: float | Literal["always"] | None = None
    """Seconds between two fsyncs of the store, or `always`; `None`: the server's default (2 minutes)."""
    users: Sequence[User] = ()
    token: str | None = field(default=None, repr=False)
    nkeys: Sequence[str] = ()
    """Public user nkeys (`U...`)."""
    tls: TLS | None = None
    max_payload: int | None = None
    """Bytes; `None`: the server's default (1 MiB)."""
    monitor: bool = False
    """Open a random HTTP monitoring port on loopback; see `Server.monitor_url`."""
    websocket: bool = False
    """Open a random WebSocket port on loopback, with `tls` if given; see `Server.websocket_url`."""
    debug: bool = False
    trace: bool = False
    config: str = field(default="", repr=False)
    """Text appended to the configuration file."""
    cluster: Member | None = None
    """Set by `run_cluster`."""
    ready_timeout: float = 30.0
    """Seconds that a start may take."""

    def __post_init__(self) -> None:
        if type(self.port) is not int or not 0 <= self.port <= 65535:
            raise UsageError(f"port must be 0 to 65535, not {self.port}")
        for option in ("name", "domain"):
            value = getattr(self, option)
            if value is not None:
                _check_name(option, value)
        _check_text("config", self.config)
        if self.store_dir is not None:
            _check_path("store_dir", self.store_dir)
        if not self.jetstream:
            for option in ("store_dir", "domain", "sync_interval"):
                if getattr(self, option) is not None:
                    raise UsageError(f"{option} needs jetstream=True")
        sync = self.sync_interval
        if sync is not None and sync != "always" and not _is_positive(sync):
            raise UsageError(f"sync_interval must be 'always' or seconds above 0, not {sync!r}")
        if self.max_payload is not None and not (
            isinstance(self.max_payload, int) and _is_positive(self.max_payload)
        ):
            raise UsageError(f"max_payload must be above 0 bytes, not {self.max_payload!r}")
        if not _is_positive(self.ready_timeout):
            raise UsageError(f"ready_timeout must be above 0 seconds, not {self.ready_timeout!r}")
        self._check_credentials()

    def _check_credentials(self) -> None:
        if self.token is not None:
            _check_text("token", self.token)
            if not self.token:
                raise UsageError("token must not be empty")
        if self.token is not None and (self.users or self.nkeys):
            raise UsageError("token cannot be combined with users or nkeys")
        if not isinstance(self.users, Sequence) or not all(isinstance(user, User) for user in self.users):
            raise UsageError("users must be a list of jetspark.server.User")
        names = [user.user for user in self.users]
        if len(set(names)) != len(names):
            raise UsageError("users: duplicate user name")
        if isinstance(self.nkeys, str) or not isinstance(self.nkeys, Sequence):
            raise UsageError(f"nkeys must be a list of keys, not {type(self.nkeys).__name__}")
        for key in self.nkeys:
            if not isinstance(key, str) or not _PUBLIC_USER_KEY.fullmatch(key):
                # The value is not shown: a seed given by mistake is a secret.
                raise UsageError("nkeys must be public user keys: U and 55 more characters")

    def change(self, changes: Mapping[str, object]) -> Options:
        """Return these options with some changed, all checked again."""
        names = [each.name for each in fields(self)]
        for option in changes:
            if option not in names:
                raise UsageError(f"{option} is not an option", hint=f"The options are {', '.join(names)}")
        given = dict(changes)
        for option in ("users", "nkeys"):
            if option in given and given[option] is None:
                given[option] = ()
        return replace(self, **given)  # type: ignore[arg-type]

    def reload(self, changes: Mapping[str, object]) -> Options:
        """As `change`, for options that a running server can reload."""
        for option in changes:
            if option not in _RELOADABLE:
                raise UsageError(
                    f"{option} cannot be changed while the server runs",
                    hint=f"These can: {', '.join(sorted(_RELOADABLE))}",
                )
        return self.change(changes)


def _check_text(option: str, value: object) -> None:
    """Raise `UsageError` unless the configuration file can hold it. It is not shown: it may be a secret."""
    if not isinstance(value, str):
        raise UsageError(f"{option} must be a str, not {type(value).__name__}")
    if _SURROGATE.search(value):
        raise UsageError(f"{option} contains a lone surrogate, which cannot be encoded")


def _is_positive(value: object) -> bool:
    """Whether it is a number above 0 that 64 bits can hold."""
    return type(value) in (int, float) and 0 < value < 2**63  # type: ignore[operator]


def _check_name(option: str, value: object) -> None:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UsageError(f"{option} must match {_NAME.pattern}, not {value!r}")


def _check_path(option: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{option} must be a path, not {type(value).__name__}")
    _check_text(option, os.fspath(value))
    if "\0" in os.fspath(value):
        raise UsageError(f"{option}: {os.fspath(value)!r} is not the name of a file")


class OptionNames(TypedDict, total=False):
    """The fields of `Options`, for signatures. `Options` documents them and has the defaults."""

    store_dir: str | os.PathLike[str] | None
    port: int
    jetstream: bool
    name: str | None
    domain: str | None
    sync_interval: float | Literal["always"] | None
    users: Sequence[User] | None
    token: str | None
    nkeys: Sequence[str] | None
    tls: TLS | None
    max_payload: int | None
    monitor: bool
    websocket: bool
    debug: bool
    trace: bool
    config: str
    cluster: Member | None
    ready_timeout: float
