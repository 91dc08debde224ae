"""Messages that a consumer did not send: any client that knows an inbox can publish to it, with any reply.

They are dropped. Their number is reported, not each of them: a flood of messages must not become a flood of
reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jetspark.errors import NotJetStreamMessage

__all__ = ["Foreign"]

#: The factor by which the count grows between two reports.
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
                    hint="Another client publishes to this inbox: give each client its own inbox_prefix",
                )
            )
