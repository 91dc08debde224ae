"""The shared state of one blocking connection: its portal, its writer, and the threads of users' functions.

Every blocking object of the connection holds the bridge. Closing it ends all its threads.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from jetspark.blocking.threads.portal import Portal
from jetspark.blocking.threads.worker import Worker, plain
from jetspark.blocking.threads.writer import Writer
from jetspark.client import Connection
from jetspark.core.events import Event
from jetspark.core.options import ConnectOptions
from jetspark.core.servers import PoolServer

__all__ = ["Bridge"]

#: Seconds that `close` waits for running callbacks, handlers and listeners. Threads cannot be cancelled.
_JOIN_WAIT: Final = 2.0


class Bridge:
    """Connects an asynchronous connection, which belongs to the loop, with the threads that use it."""

    def __init__(self, servers: list[PoolServer], options: ConnectOptions) -> None:
        self._events = Worker("jetspark-events")
        listeners: dict[str, Any] = {f"on_{event}": getattr(options, f"on_{event}") for event in Event}
        for name, listener in listeners.items():
            if listener is not None:
                listeners[name] = self.aside(name, listener)
        options = dataclasses.replace(options, **listeners)
        self._threads: set[threading.Thread] = set()
        self._stops: set[Callable[[], object]] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._closed = threading.Event()
        # Of `close_in_loop`: the loop itself keeps no tasks.
        self._ending: asyncio.Task[None] | None = None
        self.portal = Portal.acquire()
        #: Runs a coroutine in the loop and waits for its result.
        self.run = self.portal.run
        try:
            #: The asynchronous connection. Only the loop may change it.
            self.connection = self.run(self._open(servers, options))
        except BaseException:
            self._events.stop(_JOIN_WAIT)
            self.portal.release()
            raise
        self.writer = Writer(self.portal, self.connection)
        #: Queues whole frames.
        self.write = self.writer.write
        self.connection.on(Event.CLOSED, self.writer.close)
        _open_bridges.add(self)

    async def _open(self, servers: list[PoolServer], options: ConnectOptions) -> Connection:
        connection = Connection(servers, options)
        await connection.open()
        return connection

    # --- users' functions

    def aside(self, argument: str, function: Callable[..., object]) -> Callable[..., None]:
        """Wrap a user's function: it is called in the thread for events, and the caller does not wait."""
        plain(argument, function)

        def post(*args: object) -> None:
            self._events.post(functools.partial(function, *args))

        return post

    def on_error(self, function: Callable[[Exception], object] | None) -> Callable[..., None] | None:
        """`aside` for an `on_error` argument, which may be missing."""
        return None if function is None else self.aside("on_error", function)

    def spawn(self, work: Callable[[], None], name: str, stop: Callable[[], object]) -> threading.Thread:
        """Start a thread. `close` calls `stop`, then waits for the thread."""

        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())
                    self._stops.discard(stop)

        thread = threading.Thread(target=run, name=f"jetspark-{name}", daemon=True)
        with self._lock:
            self._threads.add(thread)
            self._stops.add(stop)
        thread.start()
        return thread

    # --- ending

    def close(self) -> None:
        """Close the connection and wait a bounded time for its threads."""
        if self.portal.forked:
            return
        with self._lock:
            first, self._closing = not self._closing, True
            threads = list(self._threads)
            stops = list(self._stops)
        if not first:
            # A thread of this bridge must not wait for the close that waits for that thread.
            if threading.current_thread() not in threads:
                self._closed.wait(_JOIN_WAIT)
            return
        try:
            for stop in stops:
                stop()
            self.run(self._close())
        finally:
            deadline = time.monotonic() + _JOIN_WAIT
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join(max(deadline - time.monotonic(), 0.0))
            self._events.stop(_JOIN_WAIT)
            self.portal.release()
            _open_bridges.discard(self)
            self._closed.set()

    def close_in_loop(self) -> None:
        """`close` for callbacks in the loop, which cannot wait. A lost connection makes no more attempts."""

        async def close() -> None:
            await self._close()
            threading.Thread(target=self.close, name="jetspark-close", daemon=True).start()

        self._ending = asyncio.get_running_loop().create_task(close())

    async def _close(self) -> None:
        if self.connection.connected:
            await self.writer.settle(min(self.connection.options.connect_timeout, 2.0))
        await self.connection.close()


#: Bridges still open at exit are closed then, so that published messages are written.
_open_bridges: weakref.WeakSet[Bridge] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for bridge in list(_open_bridges):
        bridge.close()
