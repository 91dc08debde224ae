"""Dead letters: messages that a consumer gave up, found through the advisories that point to them.

A message that is given up stays in its stream, where other consumers may read it; an advisory says which
consumer gave it up and why. Advisories that a stream captures are read from there, past and future, without
loss. Other advisories arrive only while a client is subscribed to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from jetspark.errors import MessageNotFound, UsageError
from jetspark.jetstream.advisories import Advisories, parse_or_report
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.advisories import ADVISORIES, Advisory, MaxDeliveries, MessageTerminated
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.read import direct

__all__ = ["DeadLetter", "dead_letters"]

_Events: TypeAlias = AsyncGenerator[Advisory, None]

_KINDS: Final = (MaxDeliveries, MessageTerminated)
#: Letters that are remembered, so that none is returned twice: an advisory may be published again.
_REMEMBERED: Final = 100_000
_BATCH: Final = 500


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a consumer gave up."""

    #: Name of the stream.
    stream: str
    #: Name of the consumer.
    consumer: str
    #: Sequence of the message in the stream.
    sequence: int
    #: How often it was delivered.
    deliveries: int
    #: `max_deliveries` when it was never acknowledged, `terminated` when a client terminated it.
    kind: str
    #: The reason that the client gave for terminating it.
    reason: str | None = None
    #: When it was given up.
    timestamp: datetime | None = None
    #: The message, or None when the stream no longer has it.
    message: StoredMessage | None = None


async def dead_letters(
    api: API, stream: str, consumer: str, *, since: datetime | None = None, follow: bool = False
) -> AsyncIterator[DeadLetter]:
    """The messages that `consumer` gave up. Documented for users on `JetStream.dead_letters`."""
    subjects = [
        subject
        for each in ADVISORIES.values()
        if each.event in _KINDS
        for subject in each.subjects(stream, consumer)
    ]
    captured = await _captures(api, subjects)
    if not captured and not follow:
        raise UsageError(
            f"no stream captures the advisories about consumer {consumer} of stream {stream}",
            hint="Create one with js.create_advisory_stream() for future messages, or use follow=True",
        )
    info = await streams.info(api, stream)
    sources = [_stored(api, name, found, since, follow) for name, found in captured.items()]
    heard_only = set(subjects).difference(*captured.values())
    if follow and heard_only:
        sources.append(_heard(api, sorted(heard_only)))
    seen: dict[tuple[int, str], None] = {}
    async with aclosing(_merged(sources) if follow else _chained(sources)) as events:
        async for event in events:
            letter = _letter(event)
            if letter is None or (letter.sequence, letter.kind) in seen:
                continue
            seen[letter.sequence, letter.kind] = None
            if len(seen) > _REMEMBERED:
                del seen[next(iter(seen))]
            if letter.timestamp is None or letter.timestamp >= info.created:
                message = await _message(api, info.config, letter.sequence)
                letter = msgspec.structs.replace(letter, message=message)
            # An older one is about a deleted stream of the same name.
            yield letter


async def _captures(api: API, subjects: Iterable[str]) -> dict[str, list[str]]:
    """Which streams store these subjects: subjects by stream."""
    captured: dict[str, list[str]] = {}
    for subject in subjects:
        async for name in streams.names(api, subject):
            captured.setdefault(name, []).append(subject)
    return captured


async def _stored(
    api: API, stream: str, subjects: list[str], since: datetime | None, follow: bool
) -> _Events:
    """Advisories that a stream captured, up to its end; or further, as it captures them."""
    reader = OrderedConsumer(api, stream, filter_subjects=subjects, opt_start_time=since)
    try:
        if follow:
            async with reader.messages(max_messages=_BATCH) as messages:
                async for message in messages:
                    if event := parse_or_report(api.connection, message.data):
                        yield event
        else:
            while batch := await reader.fetch_no_wait(_BATCH):
                for message in batch:
                    if event := parse_or_report(api.connection, message.data):
                        yield event
    finally:
        await reader.delete()


async def _heard(api: API, subjects: list[str]) -> _Events:
    """Advisories as they are published."""
    async with Advisories(api.connection, subjects) as events:
        async for event in events:
            yield event


async def _chained(sources: list[_Events]) -> _Events:
    for source in sources:
        async with aclosing(source) as events:
            async for event in events:
                yield event


async def _merged(sources: list[_Events]) -> _Events:
    """The events of all sources as they arrive. Raises the first error of any source."""
    waiting = {asyncio.ensure_future(anext(source)): source for source in sources}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                source = waiting.pop(task)
                try:
                    event = task.result()
                except StopAsyncIteration:
                    continue
                waiting[asyncio.ensure_future(anext(source))] = source
                yield event
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for source in sources:
            await source.aclose()


def _letter(event: Advisory) -> DeadLetter | None:
    if not isinstance(event, _KINDS):
        return None
    return DeadLetter(
        stream=event.stream,
        consumer=event.consumer,
        sequence=event.stream_seq,
        deliveries=event.deliveries,
        kind="terminated" if isinstance(event, MessageTerminated) else "max_deliveries",
        reason=event.reason if isinstance(event, MessageTerminated) else None,
        timestamp=event.timestamp,
    )


async def _message(api: API, config: StreamConfig, sequence: int) -> StoredMessage | None:
    try:
        return await direct.get(api, config, MsgGetRequest(seq=sequence))
    except MessageNotFound:
        return None
