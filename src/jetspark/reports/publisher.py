"""Publishes reports: every few seconds, and when the state changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from jetspark.core.signal import Signal
from jetspark.errors import Error, NoResponders
from jetspark.jetstream.context import JetStream
from jetspark.reports.control import FORGOTTEN_AFTER, STOPPED_FOR, control_stream

__all__ = ["ReportPublisher"]

logger = logging.getLogger("jetspark")

#: Seconds between two reports, and after one that the server refused.
_EVERY: Final = 2.0
_AFTER_REFUSAL: Final = 60.0
#: Seconds that publishing a report may take.
_TIMEOUT: Final = 2.0


class _Report(Protocol):
    @property
    def state(self) -> str: ...


class ReportPublisher:
    """Publishes the reports of one agent, job or query, in the event loop.

    `report` returns the current one; a wake of `changed` publishes it at once. Errors are ignored, and after
    a refusal, as of a missing permission, the next attempt is a minute later.
    """

    def __init__(self, js: JetStream, subject: str, report: Callable[[], _Report], changed: Signal) -> None:
        self._js = js
        self._subject = subject
        self._report = report
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._refused = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._work(), name="jetspark-reports")

    async def publish(self) -> None:
        """Publish a report now."""
        if self._task is None or not self._js.connection.connected:
            return
        report = self._report()
        try:
            try:
                await self._publish(report)
            except NoResponders:  # The stream does not exist, as a rule.
                await control_stream(self._js)
                await self._publish(report)
        except Error as error:
            if not error.transient and not self._refused:
                self._refused = True
                logger.debug("no reports to %s: %s", self._subject, error)
        else:
            self._refused = False

    async def _publish(self, report: _Report) -> None:
        await self._js.publish(
            self._subject,
            msgspec.json.encode(report),
            ttl=STOPPED_FOR if report.state == "stopped" else FORGOTTEN_AFTER,
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
        if not self._refused:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TIMEOUT):
                    await self.publish()

    async def _work(self) -> None:
        while True:
            await self.publish()
            if self._refused:
                await asyncio.sleep(_AFTER_REFUSAL)
            else:
                await self._changed.wait(_EVERY)
