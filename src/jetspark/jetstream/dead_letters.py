"""Dead letters: messages that a consumer gave up, found through the advisories that point to them.

A message that is given up stays in its stream, where other consumers may read it; an advisory says which
consumer gave it up and why. Advisories that a stream captures are read from there, past and future, without
loss. Other advisories arrive only while a client is subscribed to them.

A dead letter is replayed by publishing its message again, and purged by deleting its advisory.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from jetspark.errors import (
    ConsumerMismatch,
    ConsumerNotFound,
    Error,
    MessageNotFound,
    RemoteProtocolError,
    StreamNotFound,
    UsageError,
)
from jetspark.jetstream.advisories import Advisories, parse_or_report
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.advisories import ADVISORIES, Advisory, MaxDeliveries, MessageTerminated
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.jetstream.model.info import ConsumerInfo, StreamInfo
from jetspark.jetstream.model.requests import MsgDeleteRequest, MsgGetRequest, PubAck, PurgeRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.publish.headers import headers_to_copy
from jetspark.jetstream.publish.one import publish
from jetspark.jetstream.pull.buffer import PullBuffer
from jetspark.jetstream.pull.iterate import Messages
from jetspark.jetstream.pull.options import PullOptions
from jetspark.jetstream.pull.request import PullTarget
from jetspark.jetstream.read import direct
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.retry import OUTAGE, attempt_within, retry
from jetspark.wire.headers import Headers
from jetspark.wire.subjects import check_name

__all__ = ["REPLAYED_FROM", "DeadLetter", "captures", "dead_letters", "joined_letters", "purge", "replay"]

#: Header with the original stream and sequence of a replayed message.
REPLAYED_FROM: Final = "Jetspark-Replayed-From"


class _CapturedAdvisory(NamedTuple):
    """An advisory, None for an invalid one, and the message that a stream captured it in."""

    advisory: Advisory | None
    message: JetStreamMsg | None


_Events: TypeAlias = AsyncGenerator[_CapturedAdvisory, None]

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
    #: The message, or None when the stream no longer has it or it cannot be read.
    message: StoredMessage | None = None


async def dead_letters(
    api: API,
    stream: str,
    consumer: str,
    *,
    since: datetime | None = None,
    follow: bool = False,
    durable: str | None = None,
) -> AsyncIterator[DeadLetter]:
    """The messages that `consumer` gave up. Documented for users on `JetStream.dead_letters`."""
    if durable is not None:
        check_name(durable, "durable")
        if not follow:
            raise UsageError(f"durable={durable!r} needs follow=True")
    info = await streams.info(api, stream)
    sources = await _sources(api, stream, consumer, since=since, follow=follow, durable=durable)
    retry_for = math.inf if follow else OUTAGE
    seen: dict[tuple[int, str], None] = {}
    async with aclosing(_merged(sources) if follow else _chained(sources)) as events:
        async for event, message in events:
            letter = _letter(api, event, stream, consumer)
            if letter is not None and (letter.sequence, letter.kind) not in seen:
                seen[letter.sequence, letter.kind] = None
                if len(seen) > _REMEMBERED:
                    del seen[next(iter(seen))]
                letter = await _with_message(api, info, letter, retry_for)
                try:
                    yield letter
                except BaseException:
                    if message is not None:
                        with suppress(Error):  # Without the nak it is delivered again later.
                            message.nak()
                    raise
            if message is not None:
                # Otherwise it is delivered again, and skipped here.
                with suppress(Error):
                    timeout = attempt_within(api.timeout, api.timing.silence)
                    await retry(partial(message.ack_sync, timeout), api.timeout)


async def captures(api: API, stream: str, consumer: str) -> dict[str, list[str]]:
    """The streams that capture the advisories about a consumer, with subjects. Raises `UsageError`."""
    subjects = _subjects(stream, consumer)
    captured = await _captures(api, subjects)
    if not captured:
        raise _not_captured(subjects[0], stream, consumer)
    return captured


async def joined_letters(
    api: API, stream: str, consumer: str, advisories: Iterable[bytes]
) -> list[DeadLetter]:
    """The dead letters of captured advisories, each with its message. Invalid advisories are reported."""
    events = (parse_or_report(api.connection, data) for data in advisories)
    letters = [letter for event in events if (letter := _letter(api, event, stream, consumer)) is not None]
    try:
        info = await retry(partial(streams.info, api, stream))
    except StreamNotFound:
        return letters
    return await concurrently(lambda letter: _with_message(api, info, letter, OUTAGE), letters)


async def replay(api: API, letter: DeadLetter, *, to: str | None = None, again: bool = False) -> PubAck:
    """Publish a dead letter again. Documented for users on `JetStream.replay_dead_letter`."""
    message, place = letter.message, f"{letter.stream}#{letter.sequence}"
    if message is None:
        raise UsageError(f"message {place} is no longer in its stream", hint="It cannot be replayed")
    if REPLAYED_FROM in message.headers and not again:
        raise UsageError(
            f"message {place} is a replay of {message.headers[REPLAYED_FROM]!r:.100}, and failed again",
            hint="Replay it with again=True when its cause is fixed",
        )
    headers = headers_to_copy(message.headers)
    kept = {name: values for name, values in headers.items() if name.lower() != REPLAYED_FROM.lower()}
    return await publish(
        api,
        to or message.subject,
        message.data,
        headers=Headers({**kept, REPLAYED_FROM: [place]}),
        msg_id=f"replay/{letter.stream}/{letter.consumer}/{letter.sequence}",
    )


async def purge(api: API, stream: str, consumer: str, *, messages: bool = False) -> int:
    """Forget dead letters. Documented for users on `JetStream.purge_dead_letters`."""
    captured = await captures(api, stream, consumer)
    ends = {name: (await streams.info(api, name)).state.last_seq + 1 for name in captured}
    if messages:
        async for letter in dead_letters(api, stream, consumer):
            if letter.message is not None:
                with suppress(MessageNotFound):  # It was deleted meanwhile.
                    deletion = MsgDeleteRequest(seq=letter.sequence, no_erase=True)
                    await streams.delete_message(api, stream, deletion)
    purged = 0
    for name, subjects in captured.items():
        for subject in subjects:
            request = PurgeRequest(subject=subject, sequence=ends[name])
            purged += await streams.purge(api, name, request)
    return purged


def _subjects(stream: str, consumer: str) -> list[str]:
    return [
        subject
        for each in ADVISORIES.values()
        if each.event in _KINDS
        for subject in each.subjects(check_name(stream, "stream"), check_name(consumer, "consumer"))
    ]


def _not_captured(subject: str, stream: str, consumer: str, also: str = "") -> UsageError:
    return UsageError(
        f"no stream captures {subject}, advisories about consumer {consumer} of stream {stream}",
        hint=f"Create one with js.create_advisory_stream() for future messages{also}",
    )


async def _sources(
    api: API, stream: str, consumer: str, *, since: datetime | None, follow: bool, durable: str | None
) -> list[_Events]:
    """Where the advisories come from."""
    subjects = _subjects(stream, consumer)
    captured = await _captures(api, subjects)
    not_captured = sorted(set(subjects).difference(*captured.values()))
    if not_captured and (durable is not None or not (captured or follow)):
        also = "" if durable is not None else ", or use follow=True"
        raise _not_captured(not_captured[0], stream, consumer, also)
    if durable is not None:
        return [_resumed(api, await _position(api, *each, durable, since)) for each in captured.items()]
    if not follow:
        return [_stored(api, *each, since) for each in captured.items()]
    sources = [_followed(api, *each, since) for each in captured.items()]
    return [*sources, _live(api, not_captured)] if not_captured else sources


async def _captures(api: API, subjects: Iterable[str]) -> dict[str, list[str]]:
    """Which streams store these subjects: subjects by stream."""
    captured: dict[str, list[str]] = {}
    for subject in subjects:
        async for name in streams.names(api, subject):
            captured.setdefault(name, []).append(subject)
    return captured


def _parsed(api: API, message: JetStreamMsg) -> _CapturedAdvisory:
    return _CapturedAdvisory(parse_or_report(api.connection, message.data), message)


async def _stored(api: API, stream: str, subjects: list[str], since: datetime | None) -> _Events:
    """Advisories that a stream captured, up to its end."""
    reader = OrderedConsumer(api, stream, filter_subjects=subjects, opt_start_time=since)
    try:
        while batch := await retry(partial(reader.fetch_no_wait, _BATCH)):
            for message in batch:
                yield _parsed(api, message)
    finally:
        await reader.delete()


async def _followed(api: API, stream: str, subjects: list[str], since: datetime | None) -> _Events:
    """Advisories that a stream captured, and further ones as it captures them."""
    reader = OrderedConsumer(api, stream, filter_subjects=subjects, opt_start_time=since)
    try:
        async with reader.messages(max_messages=_BATCH) as messages:
            async for message in messages:
                yield _parsed(api, message)
    finally:
        await reader.delete()


async def _position(
    api: API, stream: str, subjects: list[str], durable: str, since: datetime | None
) -> ConsumerInfo:
    """The durable consumer that keeps the position of a follower, created at `since` if it does not exist.

    Raises `ConsumerMismatch` when there is another consumer of this name.
    """
    try:
        info = await consumers.info(api, stream, durable)
    except ConsumerNotFound:
        info = await consumers.create(
            api,
            stream,
            ConsumerConfig(
                durable_name=durable,
                deliver_policy=DeliverPolicy.ALL if since is None else DeliverPolicy.BY_START_TIME,
                opt_start_time=since,
                filter_subject=subjects[0] if len(subjects) == 1 else None,
                filter_subjects=subjects if len(subjects) > 1 else [],
                # One after the other: an advisory that waits for its turn is not delivered again.
                max_ack_pending=1,
            ),
        )
    config = info.config
    filters = sorted([*config.filter_subjects, *([config.filter_subject] if config.filter_subject else [])])
    if config.is_push or config.ack_policy != AckPolicy.EXPLICIT or filters != sorted(subjects):
        raise ConsumerMismatch(
            f"consumer {durable} of stream {stream} is not the position of these dead letters: "
            f"it delivers {', '.join(filters) or 'every subject'}",
            differences={"filter_subjects": (sorted(subjects), filters)},
            hint="Use another name for durable, one for each consumer whose dead letters are read",
        )
    return info


async def _resumed(api: API, position: ConsumerInfo) -> _Events:
    """Advisories that a durable consumer delivers: those that were not acknowledged, then further ones."""
    target = PullTarget.of(api, position.stream_name, position.name, AckPolicy.EXPLICIT)
    async with Messages(PullBuffer(target, PullOptions(max_messages=1))) as messages:
        async for message in messages:
            yield _parsed(api, message)


async def _live(api: API, subjects: list[str]) -> _Events:
    """Advisories as they are published."""
    async with Advisories(api.connection, subjects) as events:
        async for event in events:
            yield _CapturedAdvisory(event, None)


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


def _letter(api: API, event: Advisory | None, stream: str, consumer: str) -> DeadLetter | None:
    """The letter of an advisory. One that points elsewhere is reported: any client may publish advisories."""
    if not isinstance(event, _KINDS):
        return None
    if (event.stream, event.consumer) != (stream, consumer) or event.stream_seq < 1:
        what = f"an advisory that is not about a message of {stream} > {consumer}: {event!r:.200}"
        api.connection.report(RemoteProtocolError(what))
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


async def _with_message(api: API, info: StreamInfo, letter: DeadLetter, retry_for: float) -> DeadLetter:
    """The letter and its message. One that is older than the stream is about another of the same name."""
    if letter.timestamp is not None and letter.timestamp < info.created:
        return letter
    found = await retry(partial(_message, api, info.config, letter.sequence), retry_for)
    return msgspec.structs.replace(letter, message=found)


async def _message(api: API, config: StreamConfig, sequence: int) -> StoredMessage | None:
    try:
        return await direct.get(api, config, MsgGetRequest(seq=sequence))
    except MessageNotFound:
        return None
    except RemoteProtocolError as error:  # It cannot be read: the other letters can.
        api.connection.report(error)
        return None
