"""Key-value buckets, as blocking programs see them. Twin of `jetstream/kv/store.py`, watches and caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self, TypeVar

from jetspark.blocking.lazy_reader import SuppliedReader
from jetspark.blocking.mirror import Twin, calls, iterates, mirrors
from jetspark.blocking.threads.supply import Supply
from jetspark.jetstream.kv import backing as aio_backing
from jetspark.jetstream.kv import cache as aio_cache
from jetspark.jetstream.kv import store as aio
from jetspark.jetstream.kv import watch as aio_watch
from jetspark.jetstream.kv.entry import KeyValueEntry
from jetspark.jetstream.on_error import OnError

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["KeyValue", "KeyValueCache", "KeyValueWatch"]

B = TypeVar("B", bound=aio_backing.Bucket)
T = TypeVar("T")


@mirrors(aio_watch.Changes)
class BlockingChanges(SuppliedReader[aio_watch.Changes[T], T]):
    def __init__(self, bridge: Bridge, inner: aio_watch.Changes[T]) -> None:
        super().__init__(bridge, inner)
        self._supply = Supply(bridge.portal, self._take)
        self._until_caught_up = False
        # Whether the entries in the supply were taken after the watch had caught up.
        self._behind = False

    @property
    def caught_up(self) -> bool:
        return self._behind or (self._inner.caught_up and not len(self._supply))

    def next(self, timeout: float | None = None) -> T | None:
        return self._supply.next(timeout)

    def initial(self) -> Iterator[T]:
        self._until_caught_up = True
        try:
            while not self.caught_up and (entry := self._supply.next()) is not None:
                yield entry
        finally:
            self._until_caught_up = False

    def stop(self) -> None:
        self._supply.stop()
        self._bridge.run(self._inner.stop())

    async def _take(self, timeout: float | None) -> list[T]:
        before = self._inner.caught_up
        entries = await self._inner.take(timeout, initial=self._until_caught_up)
        self._behind = before
        return entries


@mirrors(aio_watch.KeyValueWatch)
class KeyValueWatch(BlockingChanges[KeyValueEntry]):
    pass


@mirrors(aio_cache.KeyValueCache)
class KeyValueCache(Twin[aio_cache.KeyValueCache], Mapping[str, KeyValueEntry]):
    @property
    def revision(self) -> int:
        return self._inner.revision

    @property
    def current(self) -> bool:
        return self._inner.current

    wait = calls(aio_cache.KeyValueCache.wait)

    def __getitem__(self, key: str) -> KeyValueEntry:
        return self._inner[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __enter__(self) -> Self:
        self._bridge.run(self._inner.__aenter__())
        return self

    __exit__ = calls(aio_cache.KeyValueCache.__aexit__)


@mirrors(aio_backing.Bucket)
class BlockingBucket(Twin[B]):
    @property
    def bucket(self) -> str:
        return self._inner.bucket

    @property
    def stream_name(self) -> str:
        return self._inner.stream_name


@mirrors(aio.KeyValue)
class KeyValue(BlockingBucket[aio.KeyValue]):
    status = calls(aio.KeyValue.status)

    # --- reading

    get = calls(aio.KeyValue.get)
    get_many = iterates(aio.KeyValue.get_many)
    history = calls(aio.KeyValue.history)
    keys = iterates(aio.KeyValue.keys)

    def watch(
        self,
        filters: str | Iterable[str] = ">",
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        from_revision: int | None = None,
        on_error: OnError | None = None,
    ) -> KeyValueWatch:
        watch = self._inner.watch(
            filters,
            include_history=include_history,
            updates_only=updates_only,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            from_revision=from_revision,
            on_error=self._bridge.on_error(on_error),
        )
        return KeyValueWatch(self._bridge, watch)

    def cache(self, filters: str | Iterable[str] = ">", *, on_error: OnError | None = None) -> KeyValueCache:
        cache = self._inner.cache(filters, on_error=self._bridge.on_error(on_error))
        return KeyValueCache(self._bridge, cache)

    # --- writing

    put = calls(aio.KeyValue.put)
    put_many = calls(aio.KeyValue.put_many)
    create = calls(aio.KeyValue.create)
    update = calls(aio.KeyValue.update)
    delete = calls(aio.KeyValue.delete)
    purge = calls(aio.KeyValue.purge)
    purge_deletes = calls(aio.KeyValue.purge_deletes)
