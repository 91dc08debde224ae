"""What the console can change. Each action is refused unless the console may write, and is recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from jetspark.console.letters import Letter, find_letter
from jetspark.errors import MessageNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.logs.control import switch as control

__all__ = ["Action", "Actions"]

#: Actions that are remembered.
_REMEMBERED: Final = 200


class Action(msgspec.Struct, frozen=True):
    """An action that was done, or that failed."""

    at: datetime
    #: The address of the browser.
    who: str
    what: str
    #: Empty if it succeeded.
    error: str = ""


class Actions:
    """Changes the server on behalf of a browser."""

    def __init__(self, js: JetStream, *, write: bool, report: Callable[[Action], None]) -> None:
        self._js = js
        self.write = write
        self._report = report
        #: The last actions, newest first.
        self.done: deque[Action] = deque(maxlen=_REMEMBERED)

    @asynccontextmanager
    async def _recorded(self, who: str, what: str) -> AsyncIterator[None]:
        error: BaseException | None = None
        try:
            if not self.write:
                raise UsageError("the console is read-only", hint="Start it with --write")
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            text = "" if error is None else f"{error}" or type(error).__name__
            action = Action(datetime.now(UTC), who, what, text)
            self.done.appendleft(action)
            self._report(action)

    async def pause_consumer(self, who: str, stream: str, consumer: str, seconds: float | None) -> None:
        """Pause a consumer for a time, or until it is resumed."""
        duration = f"for {seconds:g} s" if seconds is not None else "until resumed"
        async with self._recorded(who, f"pause consumer {stream} > {consumer} {duration}"):
            span = control.UNLIMITED if seconds is None else timedelta(seconds=seconds)
            await control.pause_consumer(self._js, stream, consumer, datetime.now(UTC) + span)

    async def resume_consumer(self, who: str, stream: str, consumer: str) -> None:
        """End the pause of a consumer."""
        async with self._recorded(who, f"resume consumer {stream} > {consumer}"):
            await control.resume_consumer(self._js, stream, consumer)

    async def reset_consumer(self, who: str, stream: str, consumer: str, sequence: int | None) -> None:
        """Let a consumer continue at a sequence, or after the last acknowledged message."""
        place = f"sequence {sequence}" if sequence is not None else "the last acknowledged message"
        async with self._recorded(who, f"reset consumer {stream} > {consumer} to {place}"):
            await self._js.reset_consumer(stream, consumer, sequence)

    async def pause_shippers(self, who: str, seconds: float | None) -> None:
        """Pause all agents."""
        duration = f"for {seconds:g} s" if seconds is not None else "until resumed"
        async with self._recorded(who, f"pause shippers {duration}"):
            until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
            await control.set_switch(self._js, paused=True, until=until)

    async def resume_shippers(self, who: str) -> None:
        """Resume all agents."""
        async with self._recorded(who, "resume shippers"):
            await control.set_switch(self._js, paused=False)

    async def replay(self, who: str, letters: Iterable[Letter], *, again: bool = False) -> tuple[int, int]:
        """Publish dead letters again. Returns how many, and how many were left out.

        Left out are messages that are gone, and replays that failed again unless `again` is set.
        """
        replayed = left_out = 0
        for letter in letters:
            found = await find_letter(self._js, letter)
            if found.message is None or (letter.is_replay and not again):
                left_out += 1
                continue
            async with self._recorded(who, f"replay {letter.place} of {letter.consumer}"):
                await self._js.replay_dead_letter(found, again=again)
            replayed += 1
        return replayed, left_out

    async def discard(self, who: str, letters: Iterable[Letter], *, messages: bool = False) -> int:
        """Forget dead letters; with `messages`, delete their messages from the stream, too."""
        discarded = 0
        for letter in letters:
            also = " and its message" if messages else ""
            async with self._recorded(who, f"discard {letter.place} of {letter.consumer}{also}"):
                if messages:
                    await self._delete(letter.stream, letter.sequence)
                for capture, sequence in letter.advisories:
                    await self._delete(capture, sequence)
                discarded += 1
        return discarded

    async def _delete(self, stream: str, sequence: int) -> None:
        with suppress(MessageNotFound):  # It was deleted meanwhile.
            await (await self._js.get_stream(stream)).delete_message(sequence)
