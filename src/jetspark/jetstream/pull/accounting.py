"""Accounting of a pull buffer: how much to ask for, and when. No I/O, no clock.

Everything is counted in one unit, messages or bytes, whichever the user limits. The amount that was asked
for and has not arrived is *requested*; the amount that arrived and was not taken is *buffered*. Their sum,
the *pending* amount, never exceeds the limit because of a request; when it falls to the threshold, the next
request fills it up again (ADR-37).

Messages do not say which request they answer, and the server takes turns between open requests, so only
the sum is counted: plus the amount asked for, minus the amount that arrives, minus the amount that a
request leaves undelivered. Statuses name their request by its token. When the server does not report the
undelivered amount, the whole request counts as undelivered, which is exact for a refused one. The sum may
therefore be lower than the amount still open, but does not stay higher, and asking never stops. Statuses
of forgotten requests are ignored.

Other clients may send messages to the inbox, so no more is accepted than the server may send: the limit, and
the amount that forgotten requests may still bring.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Accounting", "Ask"]

#: How many possibly open requests are remembered: twice the server's default `max_waiting`.
_REMEMBERED: Final = 1024


class Ask(NamedTuple):
    """A request to send."""

    token: int
    amount: int


class Accounting:
    """The counters of one pull buffer."""

    __slots__ = (
        "_most",
        "_open",
        "_token",
        "buffered",
        "forgotten_at",
        "limit",
        "overdue",
        "requested",
        "threshold",
    )

    def __init__(self, limit: int, threshold: int, most: int | None = None) -> None:
        self.limit = limit
        self.threshold = threshold
        # The most that the buffer holds; the limit may be lowered while more is asked for.
        self._most = limit if most is None else most
        self.buffered = 0
        #: The amount that forgotten requests may still bring, and when the last of them was forgotten.
        self.overdue = 0
        self.forgotten_at = 0.0
        #: The amount asked for that has neither arrived nor been given up.
        self.requested = 0
        self._token = 0
        # token -> amount, of all requests that may be open; a request that is served completely ends without
        # a status
        self._open: dict[int, int] = {}

    @property
    def room(self) -> int:
        """The largest amount that may arrive now."""
        return self._most + self.overdue - self.buffered

    @property
    def pending(self) -> int:
        """The amount requested or buffered."""
        return self.requested + self.buffered

    def ask(self) -> Ask | None:
        """The request that is due now, counted as sent; None when enough is pending."""
        pending = self.requested + self.buffered
        if pending > self.threshold or pending >= self.limit:
            return None
        self._token += 1
        amount = self.limit - pending
        self.requested += amount
        self._open[self._token] = amount
        if len(self._open) > _REMEMBERED:
            del self._open[next(iter(self._open))]
        return Ask(self._token, amount)

    def arrived(self, amount: int) -> None:
        """Count an amount that arrived and is buffered."""
        self.buffered += amount
        self.requested -= amount
        if self.requested <= 0:
            self.forget()  # Everything that was asked for has arrived.

    def taken(self, amount: int) -> bool:
        """Count an amount that the user took; True when `ask` may return a request now."""
        self.buffered = buffered = self.buffered - amount if self.buffered > amount else 0
        return self.requested + buffered <= self.threshold

    def ended(self, token: int, undelivered: int | None, *, refused: bool = False) -> bool:
        """Count a request that ended, and the amount it left undelivered. False if it was forgotten before.

        A `refused` request brought nothing. For others, the server may not report the undelivered amount.
        """
        asked = self._open.pop(token, None)
        if asked is None:
            return False
        self.requested -= asked if undelivered is None else undelivered
        if undelivered is None and not refused:
            self.overdue += asked
        if self.requested <= 0 or not self._open:
            self.forget()
        return True

    def forget(self) -> None:
        """Forget all requests: the connection or the leader changed, or the server went silent."""
        self._open.clear()
        self.overdue += max(self.requested, 0)
        self.requested = 0
