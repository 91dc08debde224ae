"""Connections to NATS in Spark's Python processes: one for each process and set of options.

Spark reuses its workers, so a task usually finds the connection of an earlier one. A forked worker opens its
own. A background thread answers the server's pings while Spark is busy elsewhere.

Whoever uses the connection holds a `Lease`: a task while it reads or writes, a query's runner while the query
runs. Spark keeps idle workers for long, so a connection without a lease closes after `IDLE_TIMEOUT`. If it
loses its server, it closes at once and does not reconnect: the port may belong to another program by then.
The next lease opens a new connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from jetspark.blocking.threads.bridge import Bridge
from jetspark.blocking.threads.supply import iterate
from jetspark.core.contexts import load
from jetspark.core.environment import combined
from jetspark.core.events import Event
from jetspark.core.options import ConnectOptions
from jetspark.core.servers import PoolServer, parse_servers
from jetspark.errors import ConnectionClosed, Timeout, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.spark.log import log_to_stderr, logger
from jetspark.spark.options import ConnectionOptions

__all__ = ["IDLE_TIMEOUT", "PLANNING_TIMEOUT", "Lease", "ProcessConnection", "process_connection"]

T = TypeVar("T")

#: Seconds that planning waits for a server: a wrong URL must fail soon.
PLANNING_TIMEOUT: Final = 10.0
#: Seconds after which a connection that nobody uses is closed.
IDLE_TIMEOUT: Final = 60.0
#: Seconds that a call to JetStream may take before it is retried.
_CALL_TIMEOUT: Final = 10.0
_CONNECT_TIMEOUT: Final = 10.0

_connections: dict[tuple[int, ConnectionOptions], ProcessConnection] = {}
#: Held while a connection is opened. The event loop never takes it.
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # A thread that does not exist in the child may hold the old one.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class ProcessConnection:
    """JetStream for code that does not await: an asyncio connection in a background thread."""

    def __init__(self, options: ConnectionOptions, retry_for: float, idle_timeout: float) -> None:
        """Connect, for one user. Retries for `retry_for` seconds, then raises the last error."""
        self._bridge = Bridge(*_connect_arguments(options))
        connection = self._bridge.connection
        try:
            self.run(connection.wait_connected(retry_for))
        except (ConnectionClosed, Timeout) as error:
            self._bridge.close()
            raise connection.last_error or error from None
        self.js: JetStream = connection.jetstream(
            domain=options.domain, api_prefix=options.api_prefix, timeout=_CALL_TIMEOUT
        )
        self._idle_timeout = idle_timeout
        # Reentrant: a garbage collection, which may come at any time, ends forgotten leases.
        self._lock = threading.RLock()
        self._users = 1
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        connection.on(Event.DISCONNECTED, lambda _: self._close_if_idle())

    @property
    def closed(self) -> bool:
        return self._bridge.connection.closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._bridge.run(work)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, without waiting."""
        self._bridge.portal.post(function)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over asynchronous items; the next one is prepared while the caller uses the last."""
        return iterate(self._bridge.portal, items, ahead=1)

    # --- who uses it

    def take(self) -> bool:
        """Count another user. False if the connection is closed, or is about to close."""
        with self._lock:
            if self._ended or self.closed:
                return False
            self._users += 1
            return True

    def release(self) -> None:
        if self._bridge.portal.forked:
            return  # Another process uses it, and the lock may stay held.
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.post(self._watch)

    # --- in the loop

    def _watch(self) -> None:
        """Close when nobody has used it for a while, or now if it has lost its server."""
        if not self._bridge.connection.connected:
            self._close_if_idle()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._idle_timeout, self._close_if_idle)

    def _close_if_idle(self) -> None:
        with self._lock:
            if self._users or self._ended:
                return
            self._ended = True
        connection = self._bridge.connection
        if connection.connected:
            logger.info("closing the connection, which was not used for %g s", self._idle_timeout)
        elif not connection.closed:
            logger.info("closing the connection, which lost its server and is not in use")
        if self._timer is not None:
            self._timer.cancel()
        self._bridge.close_in_loop()


class Lease:
    """The right to use a connection: until `release`, the end of its `with` block, or garbage collection."""

    def __init__(self, connection: ProcessConnection) -> None:
        self.connection = connection
        #: Does nothing the second time.
        self.release = weakref.finalize(self, connection.release)
        self.release.atexit = False

    def __enter__(self) -> ProcessConnection:
        return self.connection

    def __exit__(self, *exc: object) -> None:
        self.release()


def process_connection(
    options: ConnectionOptions, *, retry_for: float, idle_timeout: float = IDLE_TIMEOUT
) -> Lease:
    """The connection of this process. Opens it if needed, and retries that for `retry_for` seconds.

    It closes `idle_timeout` seconds after its last lease has ended, by the argument of its first one.
    """
    log_to_stderr()
    with _lock:
        key = (os.getpid(), options)
        connection = _connections.get(key)
        if connection is None or not connection.take():
            connection = _connections[key] = ProcessConnection(options, retry_for, idle_timeout)
        return Lease(connection)


def _connect_arguments(options: ConnectionOptions) -> tuple[list[PoolServer], ConnectOptions]:
    """The servers and the options of the connection: those of the query, then those of its context."""
    given: dict[str, Any] = {
        "servers": _unless_default(options, "servers"),
        "inbox_prefix": _unless_default(options, "inbox_prefix"),
        "credentials_file": _local_path(options.credentials_file),
        "user": options.user,
        "password": options.password or _reader("passwordFile", options.password_file),
        "token": options.token or _reader("tokenFile", options.token_file),
        "nkey_seed_file": _local_path(options.nkey_secret_file),
        "tls_ca_file": _local_path(options.tls_ca_file),
        "tls_cert_file": _local_path(options.tls_cert_file),
        "tls_key_file": _local_path(options.tls_key_file),
        "tls_hostname": options.tls_hostname,
        "tls_handshake_first": options.tls_handshake_first,
    }
    arguments = {name: value for name, value in given.items() if value}
    if options.context is not None:
        arguments = combined(arguments, load(options.context).connect_options())
    servers = parse_servers(arguments.pop("servers", options.servers))
    return servers, ConnectOptions(
        name=f"jetspark, Spark process {os.getpid()}",
        connect_timeout=_CONNECT_TIMEOUT,
        retry_on_failed_connect=True,
        **arguments,
    )


def _unless_default(options: ConnectionOptions, field: str) -> Any:
    value = getattr(options, field)
    return None if value == getattr(ConnectionOptions, field) else value


def _reader(option: str, path: str | None) -> Callable[[], str] | None:
    """A function that reads a secret, at each connect; None without a path."""
    if path is None:
        return None

    def read() -> str:
        try:
            secret = Path(_local_path(path) or path).read_text(encoding="utf-8").strip()
            reason = None if secret else "it is empty"
        except OSError as error:
            reason = error.strerror
        except ValueError:
            reason = "it is not text"
        if reason is not None:  # Not in an `except` block: the context of the error would hold the file.
            raise UsageError(f"option {option}: cannot read {path!r}: {reason}")
        return secret

    return read


def _local_path(path: str | None) -> str | None:
    """The path of a file on this machine: as given, or among the files that `spark.files` copied here.

    For a Spark Connect session, and for the runner of a streaming query, Spark's root directory is a
    sub-directory of the one that holds those files.
    """
    if path is None or os.path.isabs(path) or os.path.exists(path):
        return path
    from pyspark.core.files import SparkFiles  # noqa: PLC0415 - `pipeline check` works without Spark

    root = os.path.abspath(SparkFiles.getRootDirectory())
    shipped = (os.path.join(directory, path) for directory in (root, os.path.dirname(root)))
    return next(filter(os.path.exists, shipped), path)
