"""Lists that come in pages: streams, consumers, and the subjects of a stream."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from jetspark.jetstream.api import API, Endpoint
from jetspark.jetstream.model.requests import StreamListRequest

__all__ = ["paged"]

logger = logging.getLogger("jetspark")


async def paged(
    api: API, endpoint: Endpoint, key: str, *, stream: str = "", subject: str | None = None
) -> AsyncIterator[Any]:
    """Each entry of the list `key` in the answers of `endpoint`, asking for the next page when needed.

    What is made or deleted meanwhile may be missed, as the server counts from the start for every page.
    """
    offset = 0
    while True:
        answer = await api.call(endpoint, StreamListRequest(subject=subject, offset=offset), stream=stream)
        page = answer.get(key) or []
        for entry in page:
            yield entry
        if missing := answer.get("missing"):
            # Their leaders did not answer in time: they count for the offset, and are not in the page.
            logger.warning("not listed, because nobody answered for them: %s", ", ".join(missing))
        step = answer.get("limit") or len(page)
        offset += step
        if not step or offset >= answer.get("total", 0):
            return
