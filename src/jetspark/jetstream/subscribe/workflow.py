"""How a subscription is made: find the stream, look up the consumer, check it, or create it.

The rules are in `rules.py`; here is the order of the requests. A push subscription subscribes before it
creates its consumer: the server knows by the interest that a durable consumer is in use.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from jetspark.errors import ConsumerNameInUse, ConsumerNotFound, Error, UsageError
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.ordered.push import OrderedSubscription
from jetspark.jetstream.pull.iterate import Handler
from jetspark.jetstream.push.options import PushOptions
from jetspark.jetstream.push.subscription import PushSubscription
from jetspark.jetstream.subscribe.pull import PullSubscription
from jetspark.jetstream.subscribe.rules import Asked, ask_ordered, check_found, only_stream, to_create

__all__ = ["pull_subscribe", "subscribe", "subscribe_ordered"]


async def subscribe(
    api: API, asked: Asked, callback: Handler | None, options: PushOptions
) -> PushSubscription:
    """Subscribe to a push consumer; create it if it does not exist, unless `asked.bound`."""
    stream = asked.stream or await _find_stream(api, asked.subject)
    info, created = await _look_up(api, stream, asked), False
    config = to_create(asked, api.connection.new_inbox()) if info is None else info.config
    subscription = api.connection.class_of(PushSubscription)(
        api, stream, config, callback=callback, options=options
    )
    try:
        subscription.begin(config.deliver_subject or "", config.deliver_group or "")
        if info is None:
            info, created = await _create(api, stream, asked, config)
        subscription.bind(info, created=created)
    except BaseException:
        subscription.abandon()
        raise
    return subscription


async def subscribe_ordered(
    api: API, asked: Asked, callback: Handler | None, options: PushOptions
) -> PushSubscription:
    """Subscribe to a stream in order, through one consumer after another."""
    config = ask_ordered(asked)
    if options.keep_consumer:
        raise UsageError("keep_consumer excludes ordered=True", hint="No client could use its consumer")
    stream = asked.stream or await _find_stream(api, asked.subject)
    subscription = api.connection.class_of(OrderedSubscription)(
        api, stream, config, callback=callback, options=options
    )
    try:
        await subscription.start()
    except BaseException:
        subscription.abandon()
        raise
    return subscription


async def pull_subscribe(api: API, asked: Asked, *, keep: bool) -> PullSubscription:
    """Subscribe to a pull consumer; create it if it does not exist, unless `asked.bound`."""
    stream = asked.stream or await _find_stream(api, asked.subject)
    info: ConsumerInfo | None = None
    created = False
    if asked.bound:
        # An account that may only pull cannot look it up, and can still pull.
        with suppress(Error):
            info = await consumers.info(api, stream, asked.name)
    else:
        info = await _look_up(api, stream, asked)
    if info is not None:
        check_found(asked, info)
    elif not asked.bound:
        info, created = await _create(api, stream, asked, to_create(asked, ""))
    name = asked.name if info is None else info.name
    return PullSubscription(api, stream, name, info, created=created, keep=keep)


async def _find_stream(api: API, subject: str) -> str:
    return only_stream(subject, [name async for name in streams.names(api, subject)])


async def _look_up(api: API, stream: str, asked: Asked) -> ConsumerInfo | None:
    """The consumer, if it exists and matches; None when it has to be created."""
    if not asked.name:
        return None
    try:
        info = await consumers.info(api, stream, asked.name)
    except ConsumerNotFound:
        if asked.bound:
            raise
        return None
    check_found(asked, info)
    return info


async def _create(api: API, stream: str, asked: Asked, config: ConsumerConfig) -> tuple[ConsumerInfo, bool]:
    """Create the consumer, or use one that another client has created meanwhile, if it matches."""
    creating = asyncio.create_task(consumers.create(api, stream, config))
    try:
        return await asyncio.shield(creating), True
    except ConsumerNameInUse:
        info = await consumers.info(api, stream, asked.name)
        check_found(asked, info)
        return info, False
    except asyncio.CancelledError:
        if config.durable_name:
            creating.cancel()  # If it was created nevertheless, the next subscription uses it.
        else:
            _undoing.add(task := asyncio.create_task(_undo(api, stream, creating)))
            task.add_done_callback(_undoing.discard)
        raise


#: Deletions of consumers whose subscriber was cancelled.
_undoing: set[asyncio.Task[None]] = set()


async def _undo(api: API, stream: str, creating: asyncio.Task[ConsumerInfo]) -> None:
    with suppress(Error):
        await consumers.delete(api, stream, (await creating).name)
