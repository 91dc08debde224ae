"""The waits of a pull buffer after refusals, and the look for a consumer that does not answer.

A consumer that has no leader and one that was deleted answer alike, with no responders. So it is asked again
soon, and looked up: only the API knows that it was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetspark.errors import Error
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.retry import Backoff
from jetspark.jetstream.timing import Timing

__all__ = ["Pacing"]


class Pacing:
    """Waits before the next request. Waits grow until a message arrives."""

    __slots__ = (
        "_ask",
        "_elections",
        "_finish",
        "_grown",
        "_looking",
        "_loop",
        "_presence",
        "_refusals",
        "_timer",
        "unanswered",
    )

    def __init__(
        self,
        timing: Timing,
        presence: Presence | None,
        ask: Callable[[], None],
        finish: Callable[[Error], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._presence = presence
        self._ask = ask
        self._finish = finish
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        first = timing.pull_back_off
        self._refusals = Backoff(first=first, longest=timing.refused_back_off_limit)
        self._elections = Backoff(first=first, longest=timing.election_back_off_limit)
        # Whether waits have grown. Every read asks this, which is cheaper than starting over.
        self._grown = False
        #: How often in a row there were no responders; a reconnect counts.
        self.unanswered = 0

    @property
    def waiting(self) -> bool:
        """Whether nothing may be asked for now."""
        return self._timer is not None

    def refused(self) -> None:
        """The server refused a request."""
        self._ask_later(self._refusals)

    def no_responders(self) -> None:
        """No server answers. The first time that is most likely an election, except after a reconnect."""
        self.unanswered += 1
        if self.unanswered > 1:
            self.look()
        self._ask_later(self._elections)

    def look(self) -> None:
        """Check in the background whether the consumer still exists; finish if it was deleted."""
        if self._presence is not None and (self._looking is None or self._looking.done()):
            self._looking = self._loop.create_task(self._end_if_deleted(self._presence))

    def answered(self) -> None:
        """A message or a heartbeat arrived. Only after no responders is that a reason to ask at once."""
        if self.unanswered:
            self.end()
        self._renew()

    def end(self) -> None:
        """The consumer answers again, or the connection is new: ask now what would be asked later."""
        self.unanswered = 0
        self._renew()
        if self._timer is not None:
            self._timer.cancel()
            self._ask_now()

    def cancel(self) -> None:
        """Stop asking, and stop looking for the consumer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None and self._looking is not asyncio.current_task():
            self._looking.cancel()

    def _ask_later(self, backoff: Backoff) -> None:
        if self._timer is None:
            wait = backoff.next_wait()
            assert wait is not None  # It has no deadline.
            self._timer = self._loop.call_later(wait, self._ask_now)
            self._grown = True

    def _renew(self) -> None:
        if self._grown:
            self._refusals.renew()
            self._elections.renew()
            self._grown = False

    def _ask_now(self) -> None:
        self._timer = None
        self._ask()

    async def _end_if_deleted(self, presence: Presence) -> None:
        deleted = await presence.deletion()
        if deleted is not None:
            self._finish(deleted)
