"""Connections to NATS in Spark's Python processes: one for each process and set of options.

Spark uses its workers again, so that a task usually finds a connection that an earlier one made. A forked
worker has none of its parent's. A thread of its own answers the server's pings while Spark is busy elsewhere.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Final, TypeVar

from pyspark.core.files import SparkFiles

from jetspark.blocking.threads.bridge import Bridge
from jetspark.blocking.threads.supply import iterate
from jetspark.core.options import Options
from jetspark.core.servers import parse_servers
from jetspark.errors import ConnectionError, Timeout, TLSError
from jetspark.jetstream.context import JetStream
from jetspark.spark import log
from jetspark.spark.options import ConnectionOptions

__all__ = ["PLANNING_TIMEOUT", "ProcessConnection", "process_connection"]

T = TypeVar("T")

#: Seconds in which a server must be found when something is planned: a wrong URL should not take long.
PLANNING_TIMEOUT: Final = 10.0
#: Seconds that a call to JetStream may take; it is repeated when that was too short.
_CALL_TIMEOUT: Final = 10.0
_CONNECT_TIMEOUT: Final = 10.0
#: Seconds between attempts to connect at all.
_RETRY_WAIT: Final = 0.5

_lock = threading.Lock()
_connections: dict[tuple[int, ConnectionOptions], ProcessConnection] = {}


class ProcessConnection:
    """JetStream for code that does not await."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._bridge = Bridge(parse_servers(options.servers), _core_options(options))
        connection = self._bridge.connection
        self.js: JetStream = connection.jetstream(
            domain=options.domain, api_prefix=options.api_prefix, timeout=_CALL_TIMEOUT
        )

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._bridge.connection.closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something asynchronous."""
        return self._bridge.run(work)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """An asynchronous iterator as a plain one; the next item is prepared while the last one is used."""
        return iterate(self._bridge.portal, items, ahead=1)


def process_connection(options: ConnectionOptions, *, retry_for: float) -> ProcessConnection:
    """The connection of this process. Made when missing; the server may be away for `retry_for` seconds."""
    log.show()
    with _lock:
        key = (os.getpid(), options)
        connection = _connections.get(key)
        if connection is None or connection.closed:
            connection = _connections[key] = _connect(options, time.monotonic() + retry_for)
        return connection


def _connect(options: ConnectionOptions, deadline: float) -> ProcessConnection:
    while True:
        try:
            return ProcessConnection(options)
        except (ConnectionError, Timeout) as error:
            if isinstance(error, TLSError) or time.monotonic() + _RETRY_WAIT >= deadline:
                raise
            time.sleep(_RETRY_WAIT)


def _core_options(options: ConnectionOptions) -> Options:
    return Options(
        name=f"jetspark, Spark process {os.getpid()}",
        connect_timeout=_CONNECT_TIMEOUT,
        credentials_file=_found(options.credentials_file),
        user=options.user,
        password=options.password,
        token=options.token,
        nkey_seed_file=_found(options.nkey_secret_file),
        tls_ca_file=_found(options.tls_ca_file),
        tls_cert_file=_found(options.tls_cert_file),
        tls_key_file=_found(options.tls_key_file),
    )


def _found(path: str | None) -> str | None:
    """A path on this machine: as it is, or else among the files that `spark.files` brought here.

    A session of Spark Connect, and the process that plans a streaming query, are told a directory of their
    own inside the one where those files are.
    """
    if path is None or os.path.isabs(path) or os.path.exists(path):
        return path
    root = os.path.abspath(SparkFiles.getRootDirectory())
    shipped = (os.path.join(directory, path) for directory in (root, os.path.dirname(root)))
    return next(filter(os.path.exists, shipped), path)
