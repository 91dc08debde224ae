"""One nats-server process: start, stop, signals and reload.

Secrets are in the configuration file only, never in argv, log or repr. Use a server object in one
thread at a time; the thread that started it may end.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import secrets
import signal
import time
from collections.abc import Sequence
from typing import Literal, Self, Unpack

from jetspark.errors import ServerStartError, UsageError
from jetspark.server import binary
from jetspark.server.config import HOST, render
from jetspark.server.files import ServerFiles
from jetspark.server.guard import Guarded
from jetspark.server.options import TLS, OptionNames, Options, User
from jetspark.server.ports import HeldPorts
from jetspark.server.ready import is_open, read_info, wait_for_log, wait_for_ports

__all__ = ["Server", "run"]

logger = logging.getLogger("jetspark")

_READY = "Server is ready"
_RELOADED = "Reloaded server configuration"
_NOT_RELOADED = "Failed to reload server configuration"


def run(
    *,
    store_dir: str | os.PathLike[str] | None = None,
    port: int = 0,
    jetstream: bool = True,
    name: str | None = None,
    domain: str | None = None,
    sync_interval: float | Literal["always"] | None = None,
    users: Sequence[User] | None = None,
    token: str | None = None,
    nkeys: Sequence[str] | None = None,
    tls: TLS | None = None,
    max_payload: int | None = None,
    monitor: bool = False,
    websocket: bool = False,
    debug: bool = False,
    trace: bool = False,
    config: str = "",
    ready_timeout: float = 30.0,
) -> Server:
    """Start a server on 127.0.0.1 and return it when it answers.

    Use it as a context manager, `with` or `async with`; the latter stops without blocking the loop. The
    start itself blocks for some ten milliseconds: where that matters use `async with Server(...)`, which
    starts in a thread.

    Args:
        store_dir: Directory of JetStream's store, which is kept; by default a private one that is not.
        port: Port on 127.0.0.1; 0, the default, is a free one.
        jetstream: Whether it has JetStream (True).
        name: Name of the server; by default a random one.
        domain: Domain of JetStream; none by default.
        sync_interval: Seconds between two fsyncs of the store, or `always`; 2 minutes by default.
        users: Users with passwords and permissions, as `User`; by default any client may connect.
        token: Token that clients need; none by default.
        nkeys: Public user nkeys (`U...`) that may connect; none by default.
        tls: Certificates, as `TLS`; by default connections are not encrypted.
        max_payload: Largest message in bytes (1 MiB).
        monitor: Open an HTTP monitoring port on loopback (False); see `Server.monitor_url`.
        websocket: Open a WebSocket port on loopback (False); see `Server.websocket_url`.
        debug, trace: Log more, or everything (False).
        config: Text appended to the configuration file; none by default.
        ready_timeout: Seconds that the start may take (30).

    Raises UsageError for a bad option, ServerNotFound without an executable and ServerStartError, with
    the server's log, when it does not answer within `ready_timeout` seconds.
    """
    server = Server(
        store_dir=store_dir,
        port=port,
        jetstream=jetstream,
        name=name,
        domain=domain,
        sync_interval=sync_interval,
        users=users,
        token=token,
        nkeys=nkeys,
        tls=tls,
        max_payload=max_payload,
        monitor=monitor,
        websocket=websocket,
        debug=debug,
        trace=trace,
        config=config,
        ready_timeout=ready_timeout,
    )
    server.start()
    return server


class Server:
    """A nats-server. Created stopped; `start`, `with` or `async with` start it.

    It ends with this process, also when this process is killed.
    """

    def __init__(self, **options: Unpack[OptionNames]) -> None:
        """Check the options, the fields of `jetspark.server.Options`. Starts nothing."""
        self._options = Options().change(options)
        self._name = self._options.name or f"jetspark-{secrets.token_hex(4)}"
        self._port = self._options.port
        self._monitor_port = 0
        self._websocket_port = 0
        self._held = HeldPorts()  # from the first start to the next stop
        self._files: ServerFiles | None = None  # from the first start to the next stop
        self._process: Guarded | None = None
        self._fresh = True  # whether the latest start made the files
        self._log_start = 0  # the byte of the log where the latest start begins
        self._last_log = ""

    # --- properties

    @property
    def name(self) -> str:
        return self._name

    @property
    def host(self) -> str:
        return HOST

    @property
    def port(self) -> int:
        """The client port. 0 before the first start unless it was given; it never changes after that."""
        return self._port

    @property
    def url(self) -> str:
        """Where clients connect, without credentials."""
        return f"{'nats' if self._options.tls is None else 'tls'}://{HOST}:{self._port}"

    @property
    def monitor_url(self) -> str | None:
        """The HTTP monitoring address; None without the option `monitor`."""
        return f"http://{HOST}:{self._monitor_port}" if self._options.monitor else None

    @property
    def websocket_url(self) -> str | None:
        """Where clients connect through WebSocket; None without the option `websocket`."""
        scheme = "ws" if self._options.tls is None else "wss"
        return f"{scheme}://{HOST}:{self._websocket_port}" if self._options.websocket else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def options(self) -> Options:
        return self._options

    @property
    def store_dir(self) -> str | None:
        """The store of JetStream. `None` without JetStream, and while stopped if it is temporary."""
        if not self._options.jetstream:
            return None
        if self._options.store_dir is not None:
            return os.path.abspath(self._options.store_dir)
        return self._files.store if self._files is not None else None

    @property
    def config_file(self) -> str | None:
        return self._files.config if self._files is not None else None

    def log(self) -> str:
        """Return the server's log, with that of earlier starts. Still available after `stop`."""
        return self._files.read_log() if self._files is not None else self._last_log

    def log_since_start(self) -> str:
        """Return the part of `log` since the latest start."""
        return self._files.read_log(self._log_start) if self._files is not None else self._last_log

    def info(self, deadline: float) -> dict[str, object]:
        """Return the INFO that a new client gets; empty with `TLS.handshake_first`, which sends none.

        `deadline` is a time of the monotonic clock. Raises ServerStartError without an answer.
        """
        silent = self._options.tls is not None and self._options.tls.handshake_first
        return read_info(self._port, silent=silent, deadline=deadline)

    def __repr__(self) -> str:
        return f"<Server {self._name} {self.url} {'running' if self.running else 'stopped'}>"

    # --- start, stop, signals

    def start(self) -> None:
        """Start, with the port and store of earlier starts. Does nothing when it runs.

        Raises ServerNotFound and ServerStartError; then nothing is left running.
        """
        if self.running:
            return
        deadline = time.monotonic() + self._options.ready_timeout
        self.spawn()
        self.wait_ready(deadline)
        self._log_event("started")

    def spawn(self) -> None:
        """Start without waiting for an answer: the first half of `start`. `wait_ready` is the second."""
        executable = binary.find()
        self._end(timeout=0)  # a process that ended by itself must still be reaped
        self._fresh = self._files is None
        files = self._files = self._files or ServerFiles()
        _servers.add(self)
        try:
            if self.store_dir is not None:
                os.makedirs(self.store_dir, mode=0o700, exist_ok=True)
            self._hold_ports()
            self._write_config(files)
            self._log_start = files.log_size()
            command = [executable, "-c", files.config]
            self._process = Guarded(command, directory=files.directory, log=files.log)
        except BaseException as error:
            self._give_up()
            if isinstance(error, OSError):
                raise ServerStartError(f"nats-server could not be started: {error}") from error
            raise

    def wait_ready(self, deadline: float) -> None:
        """Wait until it answers on its port. `deadline` is a time of the monotonic clock.

        Raises ServerStartError when it does not; then nothing is left running.
        """
        try:
            process, files = self._process, self._files
            assert process is not None
            assert files is not None
            wait_for_log(files, process, _READY, start=self._log_start, deadline=deadline)
            ports = wait_for_ports(files, process, deadline=deadline)
            # From now on the configuration names the ports that the server picked.
            self._port = ports["nats"]
            self._monitor_port = ports.get("monitoring", 0)
            self._websocket_port = ports.get("websocket", 0)
            info = self.info(deadline)
        except BaseException:
            self._give_up()
            raise
        if is_open(info):
            logger.warning(
                "%s listens on %s:%s without authentication: give it users, or let it listen on %s only",
                self._name,
                info["host"],
                self._port,
                HOST,
            )

    def stop(self, timeout: float = 5.0) -> None:
        """Stop it (SIGTERM, after `timeout` seconds SIGKILL) and remove its temporary files.

        A store given as `store_dir` is kept; a temporary store is removed, unlike by `restart` and `kill`.
        Does nothing when it is stopped.
        """
        if self.running:
            self._log_event("stopped")
        self._end(timeout)
        if self._files is not None:
            self._last_log = self._files.read_log()
            self._files.remove()
            self._files = None
        self._held.release()
        _servers.discard(self)

    def kill(self) -> None:
        """Send SIGKILL. The store stays; `start` uses it again."""
        self._log_event("killed")
        self._end(timeout=0)

    def restart(self, timeout: float = 5.0) -> None:
        """Stop it if it runs, and start it on the same port with the same store."""
        self._log_event("restarted")
        self._end(timeout)
        self.start()

    def pause(self) -> None:
        """Send SIGSTOP: it stops answering, and its connections stay open."""
        self._log_event("paused")
        self._running().suspend()

    def resume(self) -> None:
        """Send SIGCONT, which ends `pause`."""
        self._log_event("resumed")
        self._running().signal(signal.SIGCONT)

    def lame_duck(self) -> None:
        """Send SIGUSR2: it asks its clients to use other servers, closes them gradually and exits.

        It waits `lame_duck_grace_period` first (10 seconds), and spreads the closing over
        `lame_duck_duration` (2 minutes, 30 seconds at least); both can be set in `config`.
        """
        self._running().signal(signal.SIGUSR2)

    def reload(self, **changes: Unpack[OptionNames]) -> None:
        """Change options of the running server (SIGHUP) and wait until it uses them.

        Raises UsageError for an option that cannot be reloaded, and ServerStartError, with the server's
        log, when the server refuses the change; then the options are as before.
        """
        process, files, before = self._running(), self._files, self._options
        assert files is not None
        self._options = before.reload(changes)
        start = files.log_size()
        deadline = time.monotonic() + self._options.ready_timeout
        try:
            self._write_config(files)
            process.signal(signal.SIGHUP)
            wait_for_log(files, process, _RELOADED, failure=_NOT_RELOADED, start=start, deadline=deadline)
        except BaseException:
            self._options = before
            self._write_config(files)
            raise

    # --- context managers

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        if not self.running:
            await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.stop)

    # --- internals

    def _log_event(self, event: str) -> None:
        logger.info("nats-server at port %d was %s", self._port, event)

    def _running(self) -> Guarded:
        if self._process is None or not self._process.running:
            raise UsageError(f"{self._name} is not running", hint="Call start() first")
        return self._process

    def _end(self, timeout: float) -> None:
        if self._process is not None:
            self._process.end(timeout)
            self._process = None

    def _give_up(self) -> None:
        """Clean up after a failed start. A store of earlier starts is kept."""
        if self._fresh:
            self.stop(timeout=0)
        else:
            self.kill()

    def _hold_ports(self) -> None:
        options = self._options
        self._port = self._held.hold(self._port)
        if options.monitor:
            self._monitor_port = self._held.hold(self._monitor_port)
        if options.websocket:
            self._websocket_port = self._held.hold(self._websocket_port)
        if options.cluster is not None:
            self._held.hold(options.cluster.port)

    def _write_config(self, files: ServerFiles) -> None:
        text = render(
            self._options,
            name=self._name,
            port=self._port,
            monitor_port=self._monitor_port,
            websocket_port=self._websocket_port,
            ports_dir=files.ports,
            store_dir=self.store_dir or "",
        )
        files.write_config(text)


# Started and not stopped. At exit they are stopped and their directories removed.
_servers: set[Server] = set()


@atexit.register
def _stop_all() -> None:
    for server in list(_servers):
        server.stop()
