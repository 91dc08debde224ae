"""Managing consumers: one function for each request of the API about them.

The methods of `JetStream`, `Stream` and `Consumer`, which call these, document them for users.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from jetspark.core.numbers import check_seconds
from jetspark.core.server_info import Feature
from jetspark.errors import ConsumerNameInUse, UsageError
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API
from jetspark.jetstream.model import requests
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.model.stream import Placement

__all__ = [
    "create",
    "create_or_update",
    "delete",
    "info",
    "infos",
    "names",
    "pause",
    "reset",
    "stepdown",
    "unpin",
]


#: The `inactive_threshold` that the server sets for a consumer without `durable_name`
#: (JsDeleteWaitTimeDefault), in seconds.
_INACTIVE_THRESHOLD: Final = 5.0


async def create_or_update(api: API, stream: str, config: ConsumerConfig, action: str) -> ConsumerInfo:
    """`action` is `create`, `update`, or empty for either. The same `create` twice is the same consumer."""
    ConsumerConfig.check_type(config, "config")
    name = config.durable_name or config.name
    if not name:
        if action == "update":
            raise UsageError("ConsumerConfig.name is missing: only a consumer with a name can be updated")
        # Named by the client, so that a request that is repeated finds the consumer of the first one.
        name = secrets.token_hex(8)
        config = msgspec.structs.replace(config, name=name)
    try:
        return await _create_or_update(api, stream, name, config, action)
    except ConsumerNameInUse:
        if action != "create" or config.durable_name or config.inactive_threshold:
            raise
    # The server adds a threshold to a consumer that it creates, and compares the request without one.
    config = msgspec.structs.replace(config, inactive_threshold=_INACTIVE_THRESHOLD)
    return await _create_or_update(api, stream, name, config, action)


async def _create_or_update(
    api: API, stream: str, name: str, config: ConsumerConfig, action: str
) -> ConsumerInfo:
    request = requests.ConsumerCreateRequest(stream_name=stream, config=config, action=action)
    endpoint = endpoints.CONSUMER_CREATE
    if config.filter_subject and not config.filter_subjects:
        # The server requires it (error 10131): permissions can then be given by filter.
        endpoint = endpoints.CONSUMER_CREATE_FILTERED
    answer = await api.call(
        endpoint,
        request,
        stream=stream,
        consumer=name,
        subject=config.filter_subject or "",
        # The same create twice is one consumer; an update could undo that of another client.
        safe=action == "create",
    )
    return ConsumerInfo.from_wire(answer)


async def info(api: API, stream: str, name: str) -> ConsumerInfo:
    """The configuration and state of a consumer."""
    return ConsumerInfo.from_wire(await api.call(endpoints.CONSUMER_INFO, stream=stream, consumer=name))


async def infos(api: API, stream: str) -> AsyncIterator[ConsumerInfo]:
    """Every consumer of a stream."""
    async for wire in api.pages(endpoints.CONSUMER_LIST, "consumers", stream=stream):
        yield ConsumerInfo.from_wire(wire)


async def names(api: API, stream: str) -> AsyncIterator[str]:
    """The name of every consumer of a stream."""
    async for name in api.pages(endpoints.CONSUMER_NAMES, "consumers", stream=stream):
        yield name


async def create(api: API, stream: str, config: ConsumerConfig) -> ConsumerInfo:
    """Create a consumer on the subject of the server's version: before 2.9 only durable ones had names.

    Raises `ConsumerNameInUse` when one of another configuration exists.
    """
    if api.connection.server_info.supports(Feature.CONSUMER_NAMES):
        return await create_or_update(api, stream, config, "create")
    endpoint = endpoints.CONSUMER_CREATE_UNNAMED
    if config.durable_name:
        endpoint = endpoints.CONSUMER_CREATE_DURABLE
    elif config.name:
        raise UsageError(
            f"ConsumerConfig.name={config.name!r} needs server 2.9, this one is older", hint="Use durable"
        )
    unnamed = msgspec.structs.replace(config, name=None)
    request = requests.ConsumerCreateRequest(stream_name=stream, config=unnamed)
    answer = await api.call(endpoint, request, stream=stream, consumer=config.durable_name or "")
    return ConsumerInfo.from_wire(answer)


async def delete(
    api: API, stream: str, name: str, *, timeout: float | None = None, while_draining: bool = False
) -> None:
    """Delete a consumer."""
    await api.call(
        endpoints.CONSUMER_DELETE,
        stream=stream,
        consumer=name,
        timeout=timeout,
        while_draining=while_draining,
    )


async def pause(api: API, stream: str, name: str, until: datetime | float | None) -> requests.PauseResponse:
    """Pause a consumer until a time or for so many seconds; `None` resumes it."""
    if isinstance(until, int | float):
        check_seconds("until", until)
        try:
            until = datetime.now(UTC) + timedelta(seconds=until)
        except (OverflowError, ValueError):
            raise UsageError(f"until is too far away: {until!r} seconds") from None
    request = requests.PauseRequest(pause_until=until)
    answer = await api.call(endpoints.CONSUMER_PAUSE, request, stream=stream, consumer=name)
    return requests.PauseResponse.from_wire(answer)


async def reset(api: API, stream: str, name: str, sequence: int | None) -> requests.ResetResponse:
    """Set a consumer back to a sequence, or to the one after the acknowledgement floor."""
    request = requests.ResetRequest(seq=sequence)
    answer = await api.call(endpoints.CONSUMER_RESET, request, stream=stream, consumer=name)
    return requests.ResetResponse.from_wire(answer)


async def unpin(api: API, stream: str, name: str, group: str) -> None:
    """Take the pin from the pinned client of a priority group."""
    await api.call(endpoints.CONSUMER_UNPIN, requests.UnpinRequest(group=group), stream=stream, consumer=name)


async def stepdown(api: API, stream: str, name: str, placement: Placement | None) -> None:
    """Make the leader of a consumer step down."""
    request = requests.StepdownRequest(placement=placement)
    await api.call(endpoints.CONSUMER_STEPDOWN, request, stream=stream, consumer=name)
