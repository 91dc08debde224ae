"""The link keeps a session connected: it chooses servers, shakes hands, reconnects, gives up.

```
CONNECTING --handshake--> CONNECTED --lost--> RECONNECTING --handshake--> CONNECTED
     |                        |                    |
     '------- failed ---------+------ close -------+--- given up -------> CLOSED
```

`CLOSED` is final.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
import re
from typing import Final

from jetspark.core.events import Event, Events
from jetspark.core.handshake import handshake, server_error
from jetspark.core.options import Options
from jetspark.core.outbox import Outbox
from jetspark.core.server_info import ServerInfo
from jetspark.core.servers import Server, ServerPool
from jetspark.core.session import Session
from jetspark.core.signal import Signal
from jetspark.core.transport import Transport
from jetspark.errors import (
    AuthorizationError,
    ConnectionClosed,
    ConnectionLost,
    Error,
    MaxPayloadError,
    NoServersError,
    PermissionsViolation,
    Timeout,
    UsageError,
)
from jetspark.wire import ErrFrame, InfoFrame

__all__ = ["Link", "State"]

logger = logging.getLogger("jetspark")

#: Seconds within which a loss is explained by what the server said before it.
_LAST_WORDS: Final = 2.0

_VIOLATION = re.compile(r'(publish|subscription) to "([^"]+)"', re.IGNORECASE)


class State(enum.StrEnum):
    """Where a connection is in its life."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


class Link:
    """A session and the servers it may run over."""

    def __init__(self, servers: list[Server], options: Options) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._reconnecting: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None
        # What the server said before it closed the connection.
        self._last_words: tuple[Error | None, float] = None, 0.0
        self.pool = ServerPool(
            servers,
            wait=options.reconnect_wait,
            max_wait=options.max_reconnect_wait,
            max_attempts=options.max_reconnect_attempts,
        )
        self.session = Session(
            Outbox(self._loop, options.pending_size, options.drain_timeout),
            ping_interval=options.ping_interval,
            max_outstanding_pings=options.max_outstanding_pings,
            on_info=self._on_info,
            on_err=self._on_err,
        )
        self.events = Events()
        self.state = State.CONNECTING
        #: Wakes at every change of `state`.
        self.changed = Signal()
        self.server: Server | None = None
        self.info = ServerInfo()
        #: The error that last broke or closed the link, or that no call could raise.
        self.error: Error | None = None
        self.reconnects = 0

    async def open(self) -> None:
        """Try each server once.

        Raises the error of the only server, `AuthorizationError` of any, or `NoServersError` with a
        reason per server.
        """
        if self._options.shuffle_servers:
            self.pool.shuffle()
        errors: list[Error] = []
        servers = list(self.pool)
        for server in servers:
            server.last_attempt = self._loop.time()
            try:
                transport, info = await handshake(server, self._options)
            except Error as error:
                errors.append(error)
                if isinstance(error, UsageError):
                    break
                continue
            self._establish(server, transport, info, reconnected=False)
            return
        self.state = State.CLOSED
        for failure in errors:
            if len(errors) == 1 or isinstance(failure, AuthorizationError | UsageError):
                raise failure
        reasons = (
            str(error) if server.address in str(error) else f"{server.address}: {error}"
            for server, error in zip(servers, errors, strict=True)
        )
        raise NoServersError(
            f"no server could be reached: {'; '.join(reasons)}", hint="Is nats-server running there?"
        )

    async def close(self, error: Error | None) -> bool:
        """Enter CLOSED; `error` is why, None when the user wants it. False when it was closed already."""
        if self.state is State.CLOSED:
            return False
        self.state = State.CLOSED
        self.error = error or self.error
        running = (self._reconnecting, self._moving)
        tasks = [task for task in running if task is not None and task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        transport = self.session.transport
        self.session.close(error or ConnectionClosed("the connection was closed"), failed=error is not None)
        if error is not None:
            logger.error("the connection is closed: %s", error)
        self.changed.wake()
        if transport is not None:
            await transport.close(timeout=1.0)
        if tasks:
            await asyncio.wait(tasks)
        self.events.emit(Event.CLOSED, error)
        return True

    async def wait_connected(self, timeout: float) -> None:
        """Return when there is a server. Raises `Timeout` and `ConnectionClosed`."""
        deadline = self._loop.time() + timeout
        while self.state is not State.CONNECTED:
            if self.state is State.CLOSED:
                raise self.closed_error()
            if not await self.changed.wait(deadline - self._loop.time()):
                raise Timeout(f"the connection did not come back within {timeout} s")

    def closed_error(self) -> Error:
        """What calls on a closed connection raise, with the reason as its cause."""
        error = ConnectionClosed("the connection is closed")
        error.__cause__ = self.error
        return error

    def report(self, error: Exception, event: Event = Event.ERROR) -> None:
        """Tell about an error that no call can raise: to the log and to the listeners of `event`."""
        if isinstance(error, Error):
            self.error = error
        logger.warning("%s", error, exc_info=None if isinstance(error, Error) else error)
        self.events.emit(event, error)

    # --- connecting and losing it

    def _establish(
        self, server: Server, transport: Transport, info: ServerInfo, *, reconnected: bool
    ) -> None:
        self.server = server
        self.pool.succeeded(server)
        self.state = State.CONNECTED
        if info.max_payload < self.info.max_payload:
            self._drop_larger(info.max_payload)
        self._take_info(info)
        self.session.attach(transport, self._on_lost, reconnected=reconnected)
        self.changed.wake()

    def _drop_larger(self, max_payload: int) -> None:
        """What waits was checked against another limit; the server would close the connection over it."""
        dropped = self.session.outbox.drop_larger(max_payload)
        if dropped:
            self.report(
                MaxPayloadError(
                    f"{dropped} messages that waited for the reconnect were dropped: "
                    f"the server takes only {max_payload} bytes now"
                )
            )

    def _on_lost(self, cause: Exception | None) -> None:
        if self.state is not State.CONNECTED:
            return
        self.error = error = self._explain(cause)
        self.state = State.RECONNECTING
        if self.server is not None:
            # A fleet that loses its server must not come back in one moment: this one waits at random.
            self.server.last_attempt = self._loop.time()
        self.session.detach()
        logger.warning("disconnected from %s: %s", self.server.address if self.server else "?", error)
        self.events.emit(Event.DISCONNECTED, error)
        self.changed.wake()
        self._reconnecting = asyncio.create_task(self._reconnect(), name="jetspark-reconnect")

    def _explain(self, cause: Exception | None) -> Error:
        said, when = self._last_words
        self._last_words = None, 0.0
        if isinstance(cause, Error):
            return cause
        if said is not None and self._loop.time() - when < _LAST_WORDS:
            return said
        return ConnectionLost(f"the connection broke: {cause or 'the server closed it'}")

    async def _reconnect(self) -> None:
        if self._options.max_reconnect_attempts == 0:
            await self.close(self.error)
            return
        while True:
            choice = self.pool.next(self._loop.time(), random.random())
            if choice is None:
                await self.close(NoServersError(f"reconnecting was given up; last: {self.error}"))
                return
            server, delay = choice
            await asyncio.sleep(delay)
            server.last_attempt = self._loop.time()
            try:
                transport, info = await handshake(server, self._options)
            except Exception as error:
                if await self._gave_up(server, error):
                    return
                continue
            self.reconnects += 1
            self._establish(server, transport, info, reconnected=True)
            logger.info("reconnected to %s", server.address)
            self.events.emit(Event.RECONNECTED)
            return

    async def _gave_up(self, server: Server, error: Exception) -> bool:
        """Count a failed attempt. The same refusal of our credentials twice in a row is final."""
        self.pool.failed(server)
        if not isinstance(error, Error):
            self.report(error)  # a user's function for credentials failed
            return False
        self.error = error
        logger.info("reconnecting: %s", error)
        if not isinstance(error, AuthorizationError):
            return False
        if server.auth_error == str(error):
            await self.close(error)
            return True
        server.auth_error = str(error)
        return False

    # --- what the server says meanwhile

    def _on_info(self, frame: InfoFrame) -> None:
        try:
            info = ServerInfo.parse(frame.json)
        except Error as error:
            self.report(error)
        else:
            self._take_info(info)

    def _take_info(self, info: ServerInfo) -> None:
        self.info = info
        if self._options.discover_servers and info.connect_urls and self.server is not None:
            discovered = self.pool.discover(info.connect_urls, self.server)
            if discovered:
                self.events.emit(Event.DISCOVERED, discovered)
        if info.lame_duck and self._moving is None:
            self.events.emit(Event.LAME_DUCK)
            if len(self.pool) > 1:
                self._moving = asyncio.create_task(self._move(), name="jetspark-lame-duck")

    async def _move(self) -> None:
        """Leave a server that is about to shut down while there is another one."""
        transport = self.session.transport
        if transport is not None:
            try:
                await self.session.leave(self._options.connect_timeout)
            except Error:
                pass  # It is being left anyway.
            transport.fail(ConnectionLost("the server is in lame-duck mode: moving to another"))
        self._moving = None

    def _on_err(self, frame: ErrFrame) -> None:
        error = server_error(frame.message)
        if isinstance(error, PermissionsViolation):
            found = _VIOLATION.search(frame.message)
            if found is not None:
                self.session.refuse(found[1].lower(), found[2], error)
        else:
            # The server closes the connection after all others: the loss is reported with this cause.
            self._last_words = error, self._loop.time()
        self.report(error)
