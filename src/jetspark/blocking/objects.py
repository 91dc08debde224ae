"""Object stores, as blocking programs see them. Twin of `jetstream/objects/store.py`, and more."""

from __future__ import annotations

from typing import Self

from jetspark.blocking.kv import BlockingBucket, BlockingChanges
from jetspark.blocking.mirror import Twin, calls, iterates, mirrors
from jetspark.jetstream.objects import reader as aio_reader
from jetspark.jetstream.objects import store as aio
from jetspark.jetstream.objects.info import ObjectInfo
from jetspark.jetstream.on_error import OnError

__all__ = ["ObjectReader", "ObjectStore", "ObjectWatch"]


@mirrors(aio.ObjectWatch)
class ObjectWatch(BlockingChanges[ObjectInfo]):
    pass


@mirrors(aio_reader.ObjectReader)
class ObjectReader(Twin[aio_reader.ObjectReader]):
    @property
    def info(self) -> ObjectInfo:
        return self._inner.info

    next = calls(aio_reader.ObjectReader.next)
    read = calls(aio_reader.ObjectReader.read)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        chunk = self.next()
        if chunk is None:
            raise StopIteration
        return chunk

    def __enter__(self) -> Self:
        return self

    __exit__ = calls(aio_reader.ObjectReader.__aexit__)


@mirrors(aio.ObjectStore)
class ObjectStore(BlockingBucket[aio.ObjectStore]):
    status = calls(aio.ObjectStore.status)
    seal = calls(aio.ObjectStore.seal)

    # --- storing

    put = calls(aio.ObjectStore.put)
    put_file = calls(aio.ObjectStore.put_file)
    update_meta = calls(aio.ObjectStore.update_meta)
    delete = calls(aio.ObjectStore.delete)
    purge_orphans = calls(aio.ObjectStore.purge_orphans)
    add_link = calls(aio.ObjectStore.add_link)
    add_bucket_link = calls(aio.ObjectStore.add_bucket_link)

    # --- reading

    info = calls(aio.ObjectStore.info)
    open = calls(aio.ObjectStore.open, ObjectReader)
    get = calls(aio.ObjectStore.get)
    get_file = calls(aio.ObjectStore.get_file)
    list = iterates(aio.ObjectStore.list)

    def watch(
        self,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        on_error: OnError | None = None,
    ) -> ObjectWatch:
        watch = self._inner.watch(
            include_history=include_history,
            updates_only=updates_only,
            ignore_deletes=ignore_deletes,
            on_error=self._bridge.on_error(on_error),
        )
        return ObjectWatch(self._bridge, watch)
