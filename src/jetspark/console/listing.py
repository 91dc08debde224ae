"""Streams and consumers as the server lists them, in few requests and only with the fields that are shown.

The models of `jetstream.model` know every field and cost twenty times as much to read; the console lists
a thousand consumers every few seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from jetspark.core.json import decode_json
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API, Endpoint
from jetspark.jetstream.model.info import api_error
from jetspark.jetstream.model.requests import StreamListRequest

__all__ = ["ConsumerPage", "ListedConsumer", "ListedStream", "StreamPage", "list_consumers", "list_streams"]

#: Seconds for a page.
_TIMEOUT: Final = 5.0

#: A number, and one that can be -1 for no limit. Larger ones cannot be drawn.
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Peer(msgspec.Struct):
    name: str = ""
    current: bool = False
    offline: bool = False
    lag: _Count = 0


class _Cluster(msgspec.Struct):
    name: str = ""
    leader: str = ""
    replicas: list[_Peer] = []


class _StreamConfig(msgspec.Struct):
    name: str
    subjects: list[str] | None = None
    description: str = ""
    storage: str = ""
    retention: str = ""
    num_replicas: _Limit = 1
    max_msgs: _Limit = -1
    max_bytes: _Limit = -1
    discard: str = "old"
    allow_direct: bool = False


class _StreamState(msgspec.Struct):
    messages: _Count = 0
    bytes: _Count = 0
    first_seq: _Count = 0
    first_ts: datetime | None = None
    last_seq: _Count = 0
    last_ts: datetime | None = None
    num_subjects: _Count = 0
    num_deleted: _Count = 0
    consumer_count: _Count = 0


class ListedStream(msgspec.Struct):
    """A stream in a list."""

    config: _StreamConfig
    created: datetime
    state: _StreamState
    cluster: _Cluster | None = None

    @property
    def name(self) -> str:
        return self.config.name


class _ConsumerConfig(msgspec.Struct):
    durable_name: str = ""
    ack_policy: str = "none"
    max_ack_pending: _Limit = 0
    max_deliver: _Limit = -1
    deliver_subject: str = ""


class _Position(msgspec.Struct):
    consumer_seq: _Count = 0
    stream_seq: _Count = 0
    last_active: datetime | None = None


class ListedConsumer(msgspec.Struct):
    """A consumer in a list."""

    stream_name: str
    name: str
    created: datetime
    config: _ConsumerConfig
    delivered: _Position
    ack_floor: _Position
    num_ack_pending: _Count = 0
    num_redelivered: _Count = 0
    num_waiting: _Count = 0
    num_pending: _Count = 0
    push_bound: bool = False
    paused: bool = False
    cluster: _Cluster | None = None

    @property
    def last_active(self) -> datetime | None:
        """The last delivery or acknowledgement."""
        times = [
            time for time in (self.delivered.last_active, self.ack_floor.last_active) if time is not None
        ]
        return max(times, default=None)


class StreamPage(msgspec.Struct):
    """A page of streams."""

    streams: list[ListedStream] | None = None
    #: Streams that no leader answered for.
    missing: list[str] | None = None
    total: _Count = 0
    limit: _Count = 0
    error: dict[str, Any] | None = None


class ConsumerPage(msgspec.Struct):
    """A page of the consumers of a stream."""

    consumers: list[ListedConsumer] | None = None
    #: Consumers that no leader answered for.
    missing: list[str] | None = None
    total: _Count = 0
    limit: _Count = 0
    error: dict[str, Any] | None = None


_Page = TypeVar("_Page", StreamPage, ConsumerPage)


async def list_streams(api: API, offset: int) -> StreamPage:
    """The streams from the entry `offset` on. Raises what `API.call` raises."""
    return await _page(api, endpoints.STREAM_LIST, StreamPage, offset)


async def list_consumers(api: API, stream: str, offset: int) -> ConsumerPage:
    """The consumers of a stream from the entry `offset` on. Raises what `API.call` raises."""
    return await _page(api, endpoints.CONSUMER_LIST, ConsumerPage, offset, stream)


async def _page(api: API, endpoint: Endpoint, kind: type[_Page], offset: int, stream: str = "") -> _Page:
    body = StreamListRequest(offset=offset).to_json()
    answer = await api.ask(api.subject(endpoint, stream=stream), body, safe=True, timeout=_TIMEOUT)
    page = decode_json(answer.data, kind, f"a {kind.__name__}")
    if page.error is not None:
        raise api_error(page.error, stream=stream or None)
    return page
