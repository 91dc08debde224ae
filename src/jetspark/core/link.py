"""The link keeps a session connected: it chooses servers, does the handshake, reconnects, gives up.

```
CONNECTING --handshake--> CONNECTED --lost--> RECONNECTING --handshake--> CONNECTED
     |                        |                    |
     '------- failed ---------+------ close -------+--- given up -------> CLOSED
```

`CLOSED` is final. With `retry_on_failed_connect`, CONNECTING lasts until the first handshake succeeds.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import random
import re
from typing import Final

from jetspark import errors
from jetspark.core.events import Event, Events
from jetspark.core.handshake import handshake, server_error
from jetspark.core.options import ConnectOptions
from jetspark.core.outbox import Outbox
from jetspark.core.server_info import ServerInfo
from jetspark.core.servers import PoolServer, ServerPool
from jetspark.core.session import Session
from jetspark.core.signal import Signal
from jetspark.core.tls import Encryption
from jetspark.core.transport import Transport
from jetspark.wire import ErrFrame, InfoFrame

__all__ = ["Link", "State"]

logger = logging.getLogger("jetspark")

#: Seconds within which an -ERR of the server explains the loss that follows it.
_ERR_EXPLAINS: Final = 2.0

#: Not of the module's generator, whose state belongs to the program.
_random: Final = random.SystemRandom().random

#: Errors of a first connect that do not pass.
_FINAL: Final = (errors.UsageError, errors.AuthorizationError, errors.TLSError)

_VIOLATION = re.compile(r'(publish|subscription) to "([^"]+)"', re.IGNORECASE)


class State(enum.StrEnum):
    """The state of a connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


class Link:
    """A session and the servers that it may use."""

    def __init__(self, servers: list[PoolServer], options: ConnectOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._encryption = Encryption(options)
        self._reconnecting: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None
        # Set to reconnect without a wait.
        self._reconnect_now = asyncio.Event()
        # The last -ERR, and when: the reason if the server closes the connection now.
        self._last_err: tuple[errors.Error | None, float] = None, 0.0
        self.pool = ServerPool(
            servers,
            wait=options.reconnect_wait,
            max_wait=options.max_reconnect_wait,
            max_attempts=options.max_reconnect_attempts,
            delay=None if options.reconnect_delay is None else self._delay,
        )
        self.session = Session(
            Outbox(self._loop, options.pending_size, options.drain_timeout),
            ping_interval=options.ping_interval,
            max_outstanding_pings=options.max_outstanding_pings,
            on_info=self._on_info,
            on_err=self._on_err,
            on_failure=self.report,
        )
        self.events = Events()
        self.state = State.CONNECTING
        #: Wakes at every change of `state`.
        self.changed = Signal()
        self.server: PoolServer | None = None
        #: The INFO of the server; before the first one, of a server that supports everything.
        self.info = ServerInfo(headers=True)
        #: The error that last broke or closed the link, or that no call could raise.
        self.error: errors.Error | None = None
        self.reconnects = 0

    async def open(self) -> None:
        """Try each server once.

        Raises the error of the only server, `AuthorizationError` of any, or `NoServersError` with a reason
        per server. With `retry_on_failed_connect`, errors that may pass start reconnecting instead.
        """
        if self._options.shuffle_servers:
            self.pool.shuffle(_random)
        failures: list[tuple[PoolServer, errors.Error]] = []
        for server in self.pool:
            server.last_attempt = self._loop.time()
            try:
                transport, info = await handshake(server, self._options, self._encryption)
            except errors.Error as error:
                failures.append((server, error))
                if isinstance(error, errors.UsageError):
                    break
                continue
            self._establish(server, transport, info, reconnected=False)
            self.events.emit(Event.CONNECTED)
            return
        failure = _connect_error(failures)
        if not self._options.retry_on_failed_connect or isinstance(failure, _FINAL):
            self.state = State.CLOSED
            raise failure
        for server, _ in failures:
            self.pool.failed(server)
        self.error = failure
        logger.warning("not connected yet: %s", failure)
        self._reconnecting = asyncio.create_task(self._reconnect(), name="jetspark-connect")

    async def close(self, error: errors.Error | None, timeout: float = 1.0) -> None:
        """Enter CLOSED; `error` is the reason, None when the user closes.

        Buffered bytes are written first, for at most `timeout` seconds; then a running attempt to connect
        has as long to end.
        """
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.error = error or self.error
        running = (self._reconnecting, self._moving)
        tasks = [task for task in running if task is not None and task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        transport = self.session.transport
        self.session.close(
            error or errors.ConnectionClosed("the connection was closed"), failed=error is not None
        )
        if error is not None:
            logger.error("the connection is closed: %s", error)
        self.changed.wake()
        if transport is not None:
            await transport.close(timeout)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        self.events.emit(Event.CLOSED, error)

    async def wait_connected(self, timeout: float) -> None:
        """Return when connected. Raises `Timeout` and `ConnectionClosed`."""
        deadline = self._loop.time() + timeout
        while self.state is not State.CONNECTED:
            if self.state is State.CLOSED:
                raise self.closed_error()
            if not await self.changed.wait(deadline - self._loop.time()):
                what = "made" if self.server is None else "restored"
                last = f"; last error: {self.error}" if self.error is not None else ""
                raise errors.Timeout(
                    f"the connection was not {what} within {timeout:.3g} s{last}"
                ) from self.error

    async def reconnect(self, timeout: float) -> None:
        """Leave the server in use for the next one, or end the wait before the next attempt.

        Returns when connected. Raises `Timeout` and `ConnectionClosed`.
        """
        deadline = self._loop.time() + timeout
        transport = self.session.transport
        self._reconnect_now.set()
        if transport is not None and not transport.closed.done():
            # Half of the time at most: the server may be the one that does not answer.
            await self._leave("the user asked to reconnect", timeout / 2)
            await asyncio.wait([transport.closed], timeout=deadline - self._loop.time())
        await self.wait_connected(deadline - self._loop.time())

    def closed_error(self) -> errors.Error:
        """The error of calls on a closed connection, with the reason as its cause."""
        error = errors.ConnectionClosed("the connection is closed")
        error.__cause__ = self.error
        return error

    def report(self, error: Exception, event: Event = Event.ERROR) -> None:
        """Report an error that no call can raise: log it, and call the listeners of `event`."""
        if isinstance(error, errors.Error):
            self.error = error
        self.session.tally.errors += event is Event.ERROR
        logger.warning("%s", error, exc_info=None if isinstance(error, errors.Error) else error)
        self.events.emit(event, error)

    # --- connecting and disconnecting

    def _establish(
        self, server: PoolServer, transport: Transport, info: ServerInfo, *, reconnected: bool
    ) -> None:
        self.server = server
        self._reconnect_now.clear()
        self.pool.succeeded(server)
        self.state = State.CONNECTED
        if info.max_payload < self.info.max_payload:
            self._drop_larger(info.max_payload)
        self._take_info(info)
        self.session.attach(transport, self._on_lost, reconnected=reconnected)
        self.changed.wake()

    def _drop_larger(self, max_payload: int) -> None:
        """Drop queued messages over the new limit: the server would close the connection because of them."""
        dropped = self.session.outbox.drop_larger(max_payload)
        if dropped:
            self.report(
                errors.MaxPayloadError(
                    f"{dropped} messages that waited for the reconnect were dropped: "
                    f"the new server accepts at most {max_payload} bytes"
                )
            )

    def _on_lost(self, cause: Exception | None) -> None:
        if self.state is not State.CONNECTED:
            return
        self.error = error = self._explain(cause)
        self.state = State.RECONNECTING
        if self.server is not None:
            # Count this as an attempt, so that clients that lost the same server do not return all at once.
            self.server.last_attempt = self._loop.time()
        self.session.detach()
        logger.warning("disconnected from %s: %s", self.server.address if self.server else "?", error)
        self.events.emit(Event.DISCONNECTED, error)
        self.changed.wake()
        self._reconnecting = asyncio.create_task(self._reconnect(), name="jetspark-reconnect")

    def _explain(self, cause: Exception | None) -> errors.Error:
        err, when = self._last_err
        self._last_err = None, 0.0
        if isinstance(cause, errors.Error):
            return cause
        if err is not None and self._loop.time() - when < _ERR_EXPLAINS:
            return err
        return errors.ConnectionLost(f"the connection broke: {cause or 'the server closed it'}")

    async def _reconnect(self) -> None:
        if self._options.max_reconnect_attempts == 0:
            await self.close(self.error)
            return
        while True:
            choice = self.pool.next(self._loop.time(), _random())
            if choice is None:
                await self.close(errors.NoServersError(f"gave up reconnecting; last error: {self.error}"))
                return
            server, delay = choice
            await self._pause(delay)
            server.last_attempt = self._loop.time()
            try:
                transport, info = await handshake(server, self._options, self._encryption)
            except Exception as error:
                if await self._gave_up(server, error):
                    return
                continue
            if self.state is State.CLOSED:  # A function of the user ignored the cancellation.
                transport.fail(errors.ConnectionClosed("the connection was closed"))
                return
            first = self.server is None
            self.reconnects += not first
            self._establish(server, transport, info, reconnected=True)
            logger.info("%s to %s", "connected" if first else "reconnected", server.address)
            self.events.emit(Event.CONNECTED if first else Event.RECONNECTED)
            return

    async def _pause(self, delay: float) -> None:
        """Wait for `delay` seconds, or until `reconnect` is called."""
        try:
            async with asyncio.timeout(delay):
                await self._reconnect_now.wait()
        except TimeoutError:
            pass
        self._reconnect_now.clear()

    def _delay(self, failures: int) -> float:
        """The wait that the user's function returns; the longest one if it fails."""
        assert self._options.reconnect_delay is not None
        try:
            delay = self._options.reconnect_delay(failures)
            if 0 <= delay < math.inf:
                return delay
            self.report(errors.UsageError(f"reconnect_delay must return seconds, not {delay!r}"))
        except Exception as error:
            self.report(error)
        return self._options.max_reconnect_wait

    async def _gave_up(self, server: PoolServer, error: Exception) -> bool:
        """Count a failed attempt. The same authorization error twice in a row is final."""
        if self.state is State.CLOSED:
            return True
        self.pool.failed(server)
        if not isinstance(error, errors.Error):
            self.report(error)  # A function that returns credentials failed.
            return False
        self.error = error
        logger.info("reconnecting: %s", error)
        if not isinstance(error, errors.AuthorizationError):
            return False
        if server.auth_error == str(error):
            await self.close(error)
            return True
        server.auth_error = str(error)
        return False

    # --- INFO and -ERR

    def _on_info(self, frame: InfoFrame) -> None:
        try:
            info = ServerInfo.parse(frame.json)
        except errors.Error as error:
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
        """Leave a server that is about to shut down, if there is another one."""
        await self._leave("the server is in lame-duck mode: moving to another", self._options.connect_timeout)
        self._moving = None

    async def _leave(self, reason: str, timeout: float) -> None:
        """Break the connection after everything written was processed, or after `timeout` seconds."""
        transport = self.session.transport
        if transport is not None:
            try:
                await self.session.leave(timeout)
            except errors.Error:
                pass  # The server is left anyway.
            finally:
                # Also if the caller was cancelled: the outbox may be detached. A close writes the rest first.
                if transport is self.session.transport:
                    transport.fail(errors.ConnectionLost(reason))

    def _on_err(self, frame: ErrFrame) -> None:
        error = server_error(frame.message)
        if isinstance(error, errors.PermissionsViolation):
            found = _VIOLATION.search(frame.message)
            if found is not None:
                self.session.refuse(found[1].lower(), found[2], error)
        else:
            # The server closes the connection after any other -ERR, which is then the reason of the loss.
            self._last_err = error, self._loop.time()
        self.report(error)


def _connect_error(failures: list[tuple[PoolServer, errors.Error]]) -> errors.Error:
    """The error of a connect at which every server failed."""
    for _, error in failures:
        if len(failures) == 1 or isinstance(error, errors.AuthorizationError | errors.UsageError):
            return error
    reasons = (
        str(error) if server.address in str(error) else f"{server.address}: {error}"
        for server, error in failures
    )
    return errors.NoServersError(
        f"no server could be reached: {'; '.join(reasons)}", hint="Is nats-server running there?"
    )
