"""Advisories, as blocking programs see them. Twin of `jetstream/advisories.py`."""

from __future__ import annotations

from typing import Self

from jetspark.blocking.mirror import Twin, calls, mirrors
from jetspark.jetstream import advisories as aio
from jetspark.jetstream.model.advisories import Advisory

__all__ = ["Advisories"]


@mirrors(aio.Advisories)
class Advisories(Twin[aio.Advisories]):
    @property
    def subjects(self) -> list[str]:
        return self._inner.subjects

    @property
    def dropped(self) -> int:
        return self._inner.dropped

    def __enter__(self) -> Self:
        self._bridge.run(self._inner.__aenter__())
        return self

    __exit__ = calls(aio.Advisories.__aexit__)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Advisory:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    next = calls(aio.Advisories.next)
