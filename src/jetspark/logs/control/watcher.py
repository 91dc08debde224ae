"""The switch, as an agent sees it: open, or closed until it is told otherwise."""

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

__all__ = ["Gate"]

#: Seconds before the switch is looked up again after it could not be watched.
_AGAIN: Final = 1.0


class Gate:
    """Watches the switch. `start` it before anything is shipped."""

    def __init__(self, js: JetStream, tell: Callable[[str], None]) -> None:
        self._js = js
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.switch = Switch()
        #: Woken when the switch has changed.
        self.changed = Signal()

    @property
    def closed(self) -> bool:
        """Whether nothing may be shipped now."""
        return self.switch.holds(datetime.now(UTC))

    async def start(self) -> None:
        """Look the switch up, and watch it from now on. Raises what that raises."""
        stream = await control_stream(self._js)
        self._turn(await read_switch(stream))
        self._task = asyncio.create_task(self._watch(), name="jetspark-gate")

    async def stop(self) -> None:
        """Watch no more."""
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
                # A little later, so that the clock is surely past it.
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(min(seconds, 86400.0) + 0.01, self.changed.wake)
        self.changed.wake()

    async def _watch(self) -> None:
        told = False
        while True:
            try:
                stream = await control_stream(self._js)
                self._turn(await read_switch(stream))
                reader = await stream.ordered_consumer(
                    filter_subjects=[SHIPPERS], deliver_policy=DeliverPolicy.LAST_PER_SUBJECT
                )
                told = False
                async with reader.messages(max_messages=16, on_error=lambda error: None) as messages:
                    async for message in messages:
                        self._turn(parse_switch(message.data, message.metadata.sequence.stream))
            except ConnectionClosed:
                return
            except Exception as error:  # Whatever it is: an agent that does not hear the word says so.
                if not told:
                    self._tell(f"the pause switch cannot be watched, it is tried again: {error}")
                told = True
            await asyncio.sleep(_AGAIN)
