"""What an agent says of itself, every few seconds and when something changes."""

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
from jetspark.logs.control.switch import AGENTS, FORGOTTEN_AFTER, AgentReport
from jetspark.logs.control.watcher import Gate
from jetspark.logs.format.names import digest, header_text, subject_token

__all__ = ["AgentStatus", "Reporter"]

_EVERY: Final = 2.0
#: Seconds that a report may take. It is only a report.
_PATIENCE: Final = 2.0


class AgentStatus(msgspec.Struct, kw_only=True, frozen=True):
    """How an agent stands."""

    #: `shipping`; `paused` when the switch is set and nothing is under way any more; `stopped`.
    state: str
    host: str
    subject: str
    files: int
    #: Lines and bytes that are stored.
    lines: int
    bytes: int
    #: How many of the lines the stream had already.
    duplicates: int
    #: Messages without an answer, and bytes of files that are not read yet.
    under_way: int
    behind: int


class Reporter:
    """Publishes reports of one agent."""

    def __init__(
        self, js: JetStream, options: ShipOptions, status: Callable[[], AgentStatus], gate: Gate
    ) -> None:
        self._js = js
        self._status = status
        self._gate = gate
        self._host = header_text(options.host)
        # The same after a restart, so that an agent has one report, not one for each of its lives.
        own = str(options.positions.absolute()) if options.patterns else f"stdin {os.getpid()}"
        self.name = f"{subject_token(options.host)}-{digest(own, 6)}"
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Report from now on."""
        self._task = asyncio.create_task(self._work(), name="jetspark-reporter")

    async def report(self) -> None:
        """Report now. Nothing that goes wrong with that is worth a word."""
        if self._task is None or not self._js.connection.connected:
            return
        status = self._status()
        report = AgentReport(
            name=self.name,
            host=self._host,
            pid=os.getpid(),
            state=status.state,
            obeys=self._gate.switch.sequence,
            lines=status.lines,
            bytes=status.bytes,
            behind=status.behind,
        )
        with suppress(Error):
            await self._js.publish(
                f"{AGENTS}.{self.name}",
                msgspec.json.encode(report),
                ttl=FORGOTTEN_AFTER,
                timeout=_PATIENCE,
                retry_for=0.0,
            )

    async def stop(self) -> None:
        """Say goodbye."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.report()

    async def _work(self) -> None:
        while True:
            await self.report()
            await self._gate.changed.wait(_EVERY)
