"""Watches the pause switch for an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.logs.control.switch import SHIPPERS, Switch, control_stream, parse_switch, read_switch

__all__ = ["SwitchWatcher"]

#: Seconds between attempts to watch the switch.
_RETRY_WAIT: Final = 1.0


class SwitchWatcher:
    """Watches the switch. Call `start` before shipping."""

    def __init__(self, js: JetStream, report: Callable[[str], None]) -> None:
        self._js = js
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.switch = Switch()
        #: Woken when the switch changes.
        self.changed = Signal()

    @property
    def paused(self) -> bool:
        """Whether the agent must not publish now."""
        return self.switch.holds(datetime.now(UTC))

    async def start(self) -> None:
        """Read the switch, and watch it from now on. Raises the errors of reading."""
        stream = await control_stream(self._js)
        self._turn(await read_switch(stream))
        self._task = asyncio.create_task(self._watch(), name="jetspark-switch")

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _turn(self, switch: Switch) -> None:
        if switch == self.switch:
            return
        self.switch = switch
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if switch.paused and switch.until is not None:
            seconds = (switch.until - datetime.now(UTC)).total_seconds()
            if seconds > 0:
                # A little later, so that the clock is past it.
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(min(seconds, 86400.0) + 0.01, self.changed.wake)
        self.changed.wake()

    async def _watch(self) -> None:
        reported = False
        while True:
            try:
                stream = await control_stream(self._js)
                self._turn(await read_switch(stream))
                reader = await stream.ordered_consumer(
                    filter_subjects=[SHIPPERS], deliver_policy=DeliverPolicy.LAST_PER_SUBJECT
                )
                reported = False
                async with reader.messages(max_messages=16, on_error=lambda error: None) as messages:
                    async for message in messages:
                        self._turn(parse_switch(message.data, message.metadata.sequence.stream))
            except ConnectionClosed:
                return
            except Exception as error:  # Any error: an agent that cannot watch the switch must report it.
                if not reported:
                    self._report(f"cannot watch the pause switch, retrying: {error}")
                reported = True
            await asyncio.sleep(_RETRY_WAIT)
