"""A reader that starts when it is used, as blocking programs see it. Twin of `jetstream/lazy_reader.py`."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from jetspark.blocking.mirror import Twin
from jetspark.blocking.threads.supply import Supply
from jetspark.jetstream.lazy_reader import LazyReader

__all__ = ["SuppliedReader"]

A = TypeVar("A", bound=LazyReader)
T = TypeVar("T")


class SuppliedReader(Twin[A], Generic[A, T]):
    """Iterates over the items of `_supply`, which a subclass makes; its `stop` ends the reader."""

    _supply: Supply[T]

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self._supply.next()
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Self:
        self._bridge.run(self._inner.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
