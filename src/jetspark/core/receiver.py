"""`Receiver`: gets the messages of one subscription id, and the changes of the connection.

Subscriptions, the inbox of requests, and the pulls and publishers of JetStream are receivers. The session
calls all methods in the event loop; they must not block. An error that `deliver` raises is reported to the
listeners of the connection, and the other messages of the run are lost: handle each bad message by itself.
"""

from __future__ import annotations

from jetspark.errors import Error
from jetspark.wire import MsgFrame

__all__ = ["Receiver"]


class Receiver:
    """The base of everything that receives messages."""

    def __init__(self, sid: bytes, subject_filter: bytes, queue_group: bytes = b"") -> None:
        self.sid = sid
        self.subject_filter = subject_filter
        self.queue_group = queue_group

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Receive messages, in order: a run of consecutive messages of one read."""
        raise NotImplementedError

    def remaining(self) -> int | None:
        """How many messages are still wanted; None without a limit."""
        return None

    def disconnected(self) -> None:
        """The connection broke; it is being restored."""

    def reconnected(self) -> None:
        """The connection is back and the subscription restored."""

    def publish_refused(self, subject: str, error: Error) -> None:
        """The server does not permit publishing to `subject`."""

    def closed(self, error: Error | None) -> None:
        """No more messages can arrive: the connection is closed, or the server refused the subscription."""
