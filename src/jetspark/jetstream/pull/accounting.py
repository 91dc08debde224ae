"""How much to ask for, and when: the counters of a consume. No I/O, no clock.

Everything is counted in one unit, messages or bytes, whichever the user limits. What was asked for and
has not arrived is *requested*; what arrived and was not taken by the user is *buffered*. Their sum, the
pending amount, never exceeds the limit by a request of ours; when it falls to the threshold, the next
request fills it up again (ADR-37).

Messages do not say which request they answer, and the server takes turns between the open ones, so only
the sum is counted: plus what is asked for, minus what arrives, minus what a request that ends early has
left. Statuses do name their request, by its token. Where the server does not say what was left, all of
it counts as left, which is exact for a request that was refused; so the sum may fall short of what is
still open, but never stays above it, and it never stops asking. Statuses of requests that were forgotten
change nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Accounting", "Ask"]

#: How many requests are remembered that may be open: twice what the server lets wait by default.
_REMEMBERED: Final = 1024


class Ask(NamedTuple):
    """A request to send."""

    token: int
    amount: int


class Accounting:
    """The state of one consume."""

    __slots__ = ("_open", "_requested", "_token", "buffered", "limit", "threshold")

    def __init__(self, limit: int, threshold: int) -> None:
        self.limit = limit
        self.threshold = threshold
        self.buffered = 0
        self._requested = 0
        self._token = 0
        # token -> what was asked for, of all requests that may be open; one that is served whole ends
        # without a word
        self._open: dict[int, int] = {}

    @property
    def requested(self) -> int:
        """Asked for, and neither arrived nor given up."""
        return self._requested

    @property
    def pending(self) -> int:
        """Requested or buffered."""
        return self._requested + self.buffered

    def ask(self) -> Ask | None:
        """The request that is due now, counted as sent; None when there is enough."""
        pending = self._requested + self.buffered
        if pending > self.threshold or pending >= self.limit:
            return None
        self._token += 1
        amount = self.limit - pending
        self._requested += amount
        self._open[self._token] = amount
        if len(self._open) > _REMEMBERED:
            del self._open[next(iter(self._open))]
        return Ask(self._token, amount)

    def arrived(self, amount: int) -> None:
        """So much arrived and is buffered."""
        self.buffered += amount
        self._requested -= amount
        if self._requested <= 0:
            self.forget()  # All that was asked for is here.

    def taken(self, amount: int) -> bool:
        """The user took so much out of the buffer; True when `ask` may have a request now."""
        self.buffered = buffered = self.buffered - amount if self.buffered > amount else 0
        return self._requested + buffered <= self.threshold

    def ended(self, token: int, undelivered: int | None) -> bool:
        """The request ended with so much undelivered, None when the server does not say.

        False when it is not known any more: the status is an old one.
        """
        asked = self._open.pop(token, None)
        if asked is None:
            return False
        self._requested -= asked if undelivered is None else undelivered
        if self._requested <= 0 or not self._open:
            self.forget()
        return True

    def forget(self) -> None:
        """No request is open any more: the connection or the leader changed, or all went silent."""
        self._open.clear()
        self._requested = 0
