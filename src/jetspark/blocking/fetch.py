"""`fetch` for threads: Ctrl-C during a fetch loses no message that had arrived."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from jetspark.blocking.message import Batch, JetStreamMsg, blocking_messages
from jetspark.blocking.mirror import Twin, twin
from jetspark.jetstream.message import delivered as aio

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Fetching", "fetches"]

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class Fetching(Twin[T]):
    """Base of the classes that fetch."""

    def __init__(self, bridge: Bridge, inner: T) -> None:
        super().__init__(bridge, inner)
        #: Messages of interrupted fetches. The next fetch returns them.
        self._kept: deque[JetStreamMsg] = deque()

    def _keep(self, batch: aio.Batch) -> None:
        self._kept.extend(blocking_messages(self._bridge, batch))


def fetches(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, aio.Batch]],
) -> Callable[Concatenate[Any, P], Batch]:
    """Derive a blocking fetch. The first parameter of `method` is the number of messages, or None."""
    signature = inspect.signature(method)

    def fetch(self: Any, /, *args: Any, **kwargs: Any) -> Batch:
        fetching = method(self._inner, *args, **kwargs)
        if self._kept:
            fetching.close()
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            limit = bound.args[1]
            count = len(self._kept) if limit is None else min(limit, len(self._kept))
            return Batch([self._kept.popleft() for _ in range(count)])
        batch = self._bridge.run(fetching, self._keep)
        return Batch(blocking_messages(self._bridge, batch), batch.error)

    return twin(method, fetch)
