"""The retry policy: which errors pass, how long to wait between attempts, and when to give up.

Which errors pass is `Error.transient`, in `errors.py`. Waits double, with jitter, so that clients of a server
that went away do not return all at once. A loop that treats errors differently still takes its waits and its
deadline from `Backoff`.

No single attempt may take all the time of an operation: a leader that dies never answers, and the next one
would. A request that may be repeated is given up after `Timing.silence`; `attempt_within` is the rule for
operations that may have less time than that.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from jetspark.errors import Error

__all__ = ["OUTAGE", "Backoff", "attempt_within", "retry"]

logger = logging.getLogger("jetspark")

T = TypeVar("T")

#: Not the generator of the module, whose state belongs to the program.
_random: Final = random.SystemRandom().random

#: Seconds that an outage may last. Elections on a loaded machine were seen to take over thirty.
OUTAGE: Final = 90.0
#: Seconds before the second attempt, and the longest wait after doubling.
_FIRST: Final = 0.25
_LONGEST: Final = 1.0


class Backoff:
    """The waits between attempts, up to a deadline on the monotonic clock."""

    __slots__ = ("_first", "_longest", "_seconds", "_wait", "deadline")

    def __init__(
        self, seconds: float = math.inf, *, first: float = _FIRST, longest: float = _LONGEST
    ) -> None:
        self._seconds = seconds
        self._first = first
        self._longest = longest
        self.renew()

    def renew(self) -> None:
        """Start over: an attempt made progress."""
        self.deadline = time.monotonic() + self._seconds
        self._wait = self._first

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - time.monotonic()

    def next_wait(self) -> float | None:
        """Seconds before the next attempt, with jitter; None when the deadline would pass meanwhile."""
        wait = self._wait * (0.5 + _random() / 2)
        if wait >= self.left:
            return None
        self._wait = min(2 * self._wait, self._longest)
        return wait

    async def pause(self) -> bool:
        """Wait before the next attempt. False, at once, when the deadline would pass meanwhile."""
        wait = self.next_wait()
        if wait is None:
            return False
        await asyncio.sleep(wait)
        return True


def attempt_within(seconds: float, most: float) -> float:
    """Seconds for one attempt of an operation that has `seconds`: at most half, so that another one fits."""
    return min(most, seconds / 2)


async def retry(call: Callable[[], Awaitable[T]], seconds: float = OUTAGE) -> T:
    """The result of `call`, repeated after transient errors. Raises the last of them after `seconds`.

    `call` ends its attempts in time: its requests are `safe`, or have a timeout well below `seconds`.
    """
    backoff = Backoff(seconds)
    while True:
        try:
            return await call()
        except Error as error:
            wait = backoff.next_wait() if error.transient else None
            if wait is None:
                raise
            logger.info("waiting for JetStream: %s", error)
        await asyncio.sleep(wait)
