"""How much to ask for, and when: the counters of a consume. No I/O, no clock.

Everything is counted in one unit, messages or bytes, whichever the user limits. What was asked for and
has not arrived is *requested*; what arrived and was not taken by the user is *buffered*. Their sum, the
pending amount, never exceeds the limit by a request of ours; when it falls to the threshold, the next
request fills it up again (ADR-37).

Messages do not say which request they answer, but statuses do, by the token of the request. The server
serves requests in order, so arrivals count against the oldest. A request that ends early takes with it
what it had left: the server's number where it says one, else ours. So nothing stays requested for ever,
and statuses of requests that were forgotten change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Ask", "Pull"]


class Ask(NamedTuple):
    """A request to send."""

    token: int
    amount: int


class Pull:
    """The state of one consume."""

    __slots__ = ("_open", "_requested", "_token", "buffered", "limit", "threshold")

    def __init__(self, limit: int, threshold: int) -> None:
        self.limit = limit
        self.threshold = threshold
        self.buffered = 0
        self._requested = 0
        self._token = 0
        # token -> what the request has left, oldest first
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
        self._open[self._token] = amount
        self._requested += amount
        return Ask(self._token, amount)

    def arrived(self, amount: int) -> None:
        """So much arrived and is buffered."""
        self.buffered += amount
        self._settle(amount)

    def taken(self, amount: int) -> None:
        """The user took so much out of the buffer."""
        self.buffered = max(self.buffered - amount, 0)

    def ended(self, token: int, undelivered: int | None) -> bool:
        """The request ended with so much undelivered, None when the server does not say.

        False when it is not known any more: the status is an old one.
        """
        left = self._open.pop(token, None)
        if left is None:
            return False
        self._requested -= left
        if undelivered is not None and undelivered > left:
            # Others than the oldest were served: what we took from this one belongs to them.
            self._settle(undelivered - left)
        return True

    def forget(self) -> None:
        """No request is open any more: the connection or the leader changed, or all went silent."""
        self._open.clear()
        self._requested = 0

    def _settle(self, amount: int) -> None:
        """Count `amount` out of the open requests, oldest first."""
        while amount > 0 and self._open:
            token = next(iter(self._open))
            left = self._open[token]
            used = min(left, amount)
            amount -= used
            self._requested -= used
            if used == left:
                del self._open[token]
            else:
                self._open[token] = left - used
