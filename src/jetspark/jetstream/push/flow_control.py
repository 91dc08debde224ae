"""Flow control of push consumers: which requests were answered, and which wait for their turn.

The server asks "are you still with me" in the middle of the messages, and sends no more than a window
until it is answered. The answer belongs to the place of the request among the messages: given when
it arrives, it would only say that the socket was read. No I/O, no clock.
"""

from __future__ import annotations

from collections import deque

__all__ = ["FlowControl"]


class FlowControl:
    """Keeps requests until the messages before them were taken, and answers each subject once."""

    __slots__ = ("_last", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._last = b""

    def asked(self, subject: bytes, position: int) -> None:
        """The server asks behind the first `position` messages, or says again that it waits for this answer.

        A heartbeat repeats the subject of a request that is not answered (`Nats-Consumer-Stalled`); only one
        that was never seen is new. The subject means nothing, it is only published to.
        """
        if subject != self._last:
            self._last = subject
            self._waiting.append((position, subject))

    def due(self, taken: int) -> list[bytes]:
        """What to answer now that `taken` messages were taken and the reader asks for more."""
        subjects: list[bytes] = []
        while self._waiting and self._waiting[0][0] <= taken:
            subjects.append(self._waiting.popleft()[1])
        return subjects

    @property
    def position(self) -> int | None:
        """How many messages come before the next request; None when there is none."""
        return self._waiting[0][0] if self._waiting else None

    def forget(self) -> None:
        """The connection broke: answers may be lost, so what the server repeats counts as new."""
        self._waiting.clear()
        self._last = b""
