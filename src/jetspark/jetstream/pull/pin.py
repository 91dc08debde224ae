"""The pin of a client in a priority group with the policy `pinned_client` (ADR-42).

The server sends its messages to one client of the group, the pinned one, and gives it an id in a header of
each message. Requests of that client carry the id; when another client is pinned, the server refuses them
with 423. That is not an error: the id is forgotten, and the client waits in line with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from jetspark.core.callbacks import Callbacks
from jetspark.wire import MsgFrame
from jetspark.wire.headers import Headers

__all__ = ["OnPin", "Pin", "PinEvent"]

_HEADER: Final = "Nats-Pin-Id"


class PinEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A pin that was gained or lost."""

    #: Name of the stream.
    stream: str
    #: Name of the consumer.
    consumer: str
    #: The priority group.
    group: str
    #: The id that the server gave to the pinned client.
    pin_id: str
    #: Whether this client is pinned now. False when another one is.
    gained: bool


#: A plain or coroutine function that is called with each pin that is gained or lost.
OnPin = Callable[[PinEvent], object]


class Pin:
    """The pin that one `Consumer` object has in one group; everything that pulls through it shares it."""

    def __init__(self, stream: str, consumer: str, group: str, listeners: Callbacks[[PinEvent]]) -> None:
        self._stream = stream
        self._consumer = consumer
        self._group = group
        self._listeners = listeners
        #: The id to pull with; None while this client is not pinned.
        self.id: str | None = None

    def read(self, frames: list[MsgFrame]) -> None:
        """Find the id in messages that arrived. All messages to a pinned client have it, so the last does."""
        if not frames or not (header := frames[-1].header):
            return
        # The last value: the message itself may have such a header.
        pin_ids = Headers.parse(header).get_all(_HEADER)
        if pin_ids and pin_ids[-1] != self.id:
            self.id = pin_ids[-1]
            self._report(self.id, gained=True)

    def lost(self, pin_id: str | None) -> None:
        """The server refused a request that carried this id: another client is pinned."""
        if pin_id is not None and pin_id == self.id:
            self.id = None
            self._report(pin_id, gained=False)

    def _report(self, pin_id: str, *, gained: bool) -> None:
        self._listeners.call(
            PinEvent(
                stream=self._stream,
                consumer=self._consumer,
                group=self._group,
                pin_id=pin_id,
                gained=gained,
            )
        )
