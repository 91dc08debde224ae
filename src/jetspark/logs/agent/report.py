"""Status reports of an agent, published every few seconds and when its state changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from jetspark.errors import Error
from jetspark.jetstream.context import JetStream
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.control.switch import AGENTS, FORGOTTEN_AFTER, STOPPED_FOR, AgentReport
from jetspark.logs.control.watcher import SwitchWatcher
from jetspark.logs.format.names import digest, header_text, subject_token

__all__ = ["AgentStatus", "ReportPublisher"]

_EVERY: Final = 2.0
#: Seconds that publishing a report may take.
_TIMEOUT: Final = 2.0


class AgentStatus(msgspec.Struct, kw_only=True, frozen=True):
    """The state and counts of an agent."""

    #: `shipping`; `paused` when the switch is set and nothing is in flight; `stopped`.
    state: str
    host: str
    subject: str
    files: int
    #: Lines and bytes that are stored.
    lines: int
    bytes: int
    #: Lines that the stream already had.
    duplicates: int
    #: Messages in flight, and bytes of files that are not read yet.
    under_way: int
    behind: int


class ReportPublisher:
    """Publishes the reports of one agent."""

    def __init__(
        self, js: JetStream, options: ShipOptions, status: Callable[[], AgentStatus], switch: SwitchWatcher
    ) -> None:
        self._js = js
        self._status = status
        self._switch = switch
        self._host = header_text(options.host)
        # Stable across restarts, so that an agent has one report and not one for each start.
        own = str(options.positions.absolute()) if options.file_inputs else f"stdin {os.getpid()}"
        self.name = f"{subject_token(options.host)}-{digest(own, 6)}"
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._work(), name="jetspark-reports")

    async def publish(self) -> None:
        """Publish a report now. Errors are ignored."""
        if self._task is None or not self._js.connection.connected:
            return
        status = self._status()
        report = AgentReport(
            name=self.name,
            host=self._host,
            pid=os.getpid(),
            state=status.state,
            obeys=self._switch.switch.sequence,
            lines=status.lines,
            bytes=status.bytes,
            behind=status.behind,
        )
        with suppress(Error):
            await self._js.publish(
                f"{AGENTS}.{self.name}",
                msgspec.json.encode(report),
                ttl=STOPPED_FOR if status.state == "stopped" else FORGOTTEN_AFTER,
                timeout=_TIMEOUT,
                retry_for=0.0,
            )

    async def stop(self) -> None:
        """Stop the periodic reports, and publish the last one."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.publish()

    async def _work(self) -> None:
        while True:
            await self.publish()
            await self._switch.changed.wait(_EVERY)
