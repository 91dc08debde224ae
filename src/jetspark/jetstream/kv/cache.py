"""A cache: the current entries of a bucket, kept by a watch, and read without asking the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Self

from jetspark.core.connection import Connection
from jetspark.core.signal import Signal
from jetspark.errors import Error, Timeout
from jetspark.jetstream.kv.entry import KeyValueEntry
from jetspark.jetstream.kv.watch import KeyValueWatch

__all__ = ["KeyValueCache"]


class KeyValueCache(Mapping[str, KeyValueEntry]):
    """The current entries of a bucket, as a mapping of keys: `async with kv.cache() as cache:
    cache["a"].value`.

    Entering the context reads all of them; a watch keeps them current from then on. While the connection is
    down, `current` is false and reads return the entries that are known. When the watch has ended, as after
    the bucket was deleted, reads raise its error.
    """

    def __init__(
        self, watch: KeyValueWatch, connection: Connection, max_age: float | None, has_markers: bool
    ) -> None:
        self._watch = watch
        self._connection = connection
        self._max_age = max_age
        # Whether a revision that expires leaves a marker that the watch sees.
        self._has_markers = has_markers
        self._entries: dict[str, KeyValueEntry] = {}
        self._changed = Signal()
        self._task: asyncio.Task[None] | None = None
        self._error: Error | None = None
        self._revision = 0

    @property
    def revision(self) -> int:
        """The highest revision that it has seen; 0 before the first."""
        return self._revision

    @property
    def current(self) -> bool:
        """Whether changes reach it now."""
        return self._task is not None and not self._task.done() and self._connection.connected

    async def wait(self, revision: int, timeout: float = 5.0) -> None:
        """Wait until it has seen a revision, such as one that `put` returned. Raises `Timeout`.

        Revisions of keys that it does not watch are never seen.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        while self._revision < revision:
            self._raise_error()
            if not await self._changed.wait(max(deadline - asyncio.get_running_loop().time(), 0.0)):
                raise Timeout(
                    f"the cache is at revision {self._revision} after {timeout} s, not at {revision}"
                )

    def __getitem__(self, key: str) -> KeyValueEntry:
        self._raise_error()
        entry = self._entries[key]
        if self._expired(entry):
            raise KeyError(key)
        return entry

    def __iter__(self) -> Iterator[str]:
        self._raise_error()
        return iter([key for key, entry in self._entries.items() if not self._expired(entry)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._entries)} keys at revision {self._revision}>"

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        try:
            async for entry in self._watch.initial():
                self._apply(entry)
        except BaseException:
            await self._watch.stop()
            raise
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._watch.stop()

    async def _follow(self) -> None:
        try:
            while entries := await self._watch.take():
                for entry in entries:
                    self._apply(entry)
                self._changed.wake()
        except Error as error:
            self._error = error
        finally:
            self._changed.wake()

    def _apply(self, entry: KeyValueEntry) -> None:
        self._revision = entry.revision
        if entry.deleted:
            self._entries.pop(entry.key, None)
        else:
            self._entries[entry.key] = entry

    def _expired(self, entry: KeyValueEntry) -> bool:
        if self._has_markers:
            return False
        ages = [age for age in (self._max_age, entry.ttl) if age]
        return bool(ages) and entry.created + timedelta(seconds=min(ages)) <= datetime.now(UTC)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)
