"""Many streams at once: their names and infos, requested by page and concurrently.

STREAM.NAMES lists the streams. A page of STREAM.LIST holds the infos of 256, so it replaces requests for
single streams where it covers enough of the wanted ones. Streams that a page misses, because others were
created or deleted meanwhile or because no leader answered, are requested one by one. So are all of them when
the user may not list streams.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

from jetspark.errors import Error, JetStreamNotEnabled, PermissionsViolation, StreamNotFound
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API, Page
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.ranges import stream_info
from jetspark.jetstream.retry import retry
from jetspark.wire.subjects import check_filter

__all__ = ["concurrently", "stream_infos", "stream_names"]

logger = logging.getLogger("jetspark")

T = TypeVar("T")
Item = TypeVar("Item")

#: Requests in flight. The server drops all waiting requests of its API when there are 10,000.
_IN_FLIGHT: Final = 64
#: Streams in a page of STREAM.LIST (`JSApiListLimit` of the server).
_PAGE: Final = 256
#: A page with fewer wanted streams costs more than single requests.
_WORTH_A_PAGE: Final = 8
#: Seconds for a page. A cluster waits longer for leaders that are away; those streams are requested singly.
_PAGE_TIMEOUT: Final = 2.0

#: APIs whose user may not list streams.
_unlisted: WeakSet[API] = WeakSet()


async def concurrently(call: Callable[[Item], Awaitable[T]], items: Iterable[Item]) -> list[T]:
    """The results of `call` for each item, in order. Raises the first error and cancels the other calls."""
    room = asyncio.Semaphore(_IN_FLIGHT)

    async def one(item: Item) -> T:
        async with room:
            return await call(item)

    calls = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*calls)
    finally:
        for each in calls:
            each.cancel()


async def stream_names(api: API, subject: str | None = None) -> list[str]:
    """The names of all streams, or of those that store `subject`, asked for until the server answers."""
    if subject is not None:
        check_filter(subject)

    async def page(offset: int) -> Page:
        return await api.page(endpoints.STREAM_NAMES, "streams", offset, subject=subject)

    async def names() -> list[str]:
        first = await page(0)
        # A stream that moved to another page meanwhile is in both.
        found = dict.fromkeys(first.entries)
        offset = first.step
        while first.step and offset < first.total:
            offsets = range(offset, first.total, first.step)[:_IN_FLIGHT]
            known = len(found)
            for each in await concurrently(page, offsets):
                found |= dict.fromkeys(each.entries)
            if len(found) == known:
                break  # The total is wrong.
            offset = offsets[-1] + first.step
        return list(found)

    return await retry(names)


async def stream_infos(
    api: API, wanted: Mapping[str, int], listed: Sequence[str] = ()
) -> dict[str, StreamInfo]:
    """The `wanted` streams that exist, each with the sequence that it should reach; see `stream_info`.

    `listed` are the names of all streams, if they are known: then infos come by page.
    """
    found = await _from_pages(api, wanted.keys(), listed)

    async def info(name: str) -> StreamInfo | None:
        try:
            return await stream_info(api, name, reaching=wanted[name])
        except StreamNotFound:
            return None

    left = [name for name in wanted if name not in found or found[name].state.last_seq < wanted[name]]
    single = dict(zip(left, await concurrently(info, left), strict=True))
    infos = {name: single[name] if name in single else found[name] for name in wanted}
    return {name: each for name, each in infos.items() if each is not None}


async def _from_pages(api: API, wanted: Collection[str], listed: Sequence[str]) -> dict[str, StreamInfo]:
    """The infos of most of the wanted streams."""
    if api in _unlisted:
        return {}
    offsets = _offsets([place for place, name in enumerate(listed) if name in wanted])

    async def page(offset: int) -> list[StreamInfo]:
        try:
            answer = await api.page(endpoints.STREAM_LIST, "streams", offset, timeout=_PAGE_TIMEOUT)
            return [StreamInfo.from_wire(wire) for wire in answer.entries if _name(wire) in wanted]
        except Error as error:
            logger.info("streams are requested one by one: %s", error)
            if isinstance(error, (PermissionsViolation, JetStreamNotEnabled)):
                _unlisted.add(api)
            return []

    pages = await concurrently(page, offsets)
    return {info.config.name: info for page in pages for info in page}


def _name(wire: dict[str, Any]) -> str:
    """The name of a stream in a page, found before its info is parsed: not all of them are wanted."""
    config = wire.get("config")
    name = config.get("name") if isinstance(config, dict) else None
    return name if isinstance(name, str) else ""


def _offsets(places: Sequence[int]) -> list[int]:
    """Where the pages begin that hold enough of the streams at these places of the list."""
    offsets = []
    start = 0
    while start < len(places):
        end = bisect_left(places, places[start] + _PAGE, start)
        if end - start >= _WORTH_A_PAGE:
            offsets.append(places[start])
        start = end
    return offsets
