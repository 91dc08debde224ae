"""Messages that a consumer did not send: whoever knows an inbox can publish to it, with any reply subject.

They are dropped. Their number is reported, and not once for each: a flood of them must not become a flood of
reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jetspark.errors import NotJetStreamMessage

__all__ = ["Foreign"]

#: The next report comes when there are so many times as many.
_FACTOR: Final = 10


class Foreign:
    """Counts the messages that one reader dropped, and reports the first, the tenth, the hundredth."""

    __slots__ = ("_due", "_notify", "count")

    def __init__(self, notify: Callable[[Exception], None]) -> None:
        self._notify = notify
        self._due = 1
        #: How many were dropped.
        self.count = 0

    def drop(self, number: int, what: str) -> None:
        """Count messages that are dropped. `what` says which they are, for the report."""
        self.count += number
        if self.count >= self._due:
            self._due = _FACTOR * self.count
            self._notify(
                NotJetStreamMessage(
                    f"dropped messages {what}: {self.count} so far",
                    hint="Another client publishes to our inbox: give each client an inbox_prefix of its own",
                )
            )
