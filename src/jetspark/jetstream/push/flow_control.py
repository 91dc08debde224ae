"""Flow control of push consumers: which requests were answered, and which wait for the reader.

The server sends flow control requests among the messages, and no more than a window of messages until they
are answered. A request is answered when the reader has taken the messages before it. An answer at arrival
would only prove that the socket was read. No I/O, no clock.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["FlowControl"]

#: Most requests that wait, the latest ones. A server sends the next one after the answer.
_MOST: Final = 64


class FlowControl:
    """Keeps requests until the messages before them are taken; each subject is answered once."""

    __slots__ = ("_last", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque(maxlen=_MOST)
        self._last = b""

    def asked(self, subject: bytes, position: int) -> None:
        """The server sent or repeated a request, after the first `position` messages.

        Heartbeats repeat the last subject until it is answered (`Nats-Consumer-Stalled`): no new request.
        """
        if subject != self._last:
            self._last = subject
            self._waiting.append((position, subject))

    def due(self, taken: int) -> list[bytes]:
        """The subjects to answer now that `taken` messages are taken and the reader asks for more."""
        subjects: list[bytes] = []
        while self._waiting and self._waiting[0][0] <= taken:
            subjects.append(self._waiting.popleft()[1])
        return subjects

    @property
    def position(self) -> int | None:
        """How many messages come before the next request; None without a request."""
        return self._waiting[0][0] if self._waiting else None

    def forget(self) -> None:
        """The connection was lost, and answers with it: a repeated request counts as new."""
        self._waiting.clear()
        self._last = b""
