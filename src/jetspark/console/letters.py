"""Dead letters in pages: the messages that a consumer gave up, each with what an operator needs to decide.

Only a page of them is read at a time, and only the beginning of each message is kept.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from jetspark.console.messages import preview
from jetspark.console.text import line
from jetspark.errors import MessageNotFound, RemoteProtocolError, StreamNotFound
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.dead_letters import REPLAYED_FROM, DeadLetter, captures, joined_letters
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.advisories import ADVISORIES, MaxDeliveries, MessageTerminated, parse_advisory
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import StreamInfoRequest

__all__ = ["Letter", "LetterCount", "LetterPage", "count_letters", "find_letter", "read_letters"]

#: Letters of a page, and how many messages are read at once: a message can be 64 MB.
_PAGE: Final = 100
_AT_ONCE: Final = 8
#: Consumers that are listed.
_CONSUMERS: Final = 1000


class LetterCount(NamedTuple):
    """A consumer with dead letters."""

    stream: str
    consumer: str
    letters: int


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a consumer gave up."""

    stream: str
    consumer: str
    sequence: int
    #: `max_deliveries` or `terminated`.
    kind: str
    reason: str
    deliveries: int
    given_up: datetime | None
    #: The streams and sequences of the advisories about it.
    advisories: tuple[tuple[str, int], ...]
    #: Whether the stream no longer has the message.
    gone: bool
    #: Whether it is a replay that was given up again.
    is_replay: bool
    subject: str
    size: int
    preview: str

    @property
    def place(self) -> str:
        return f"{self.stream}#{self.sequence}"


class LetterPage(NamedTuple):
    """Some dead letters, oldest first."""

    letters: list[Letter]
    #: Where the next page begins, by stream of advisories; empty at the end.
    next: dict[str, int]


async def count_letters(js: JetStream) -> list[LetterCount] | None:
    """The consumers with dead letters, most first; None if no stream captures advisories."""
    counts: dict[tuple[str, str], int] = {}
    captured = False
    for kind in ("max_deliver", "terminated"):
        pattern = ADVISORIES[kind].subjects()[0]
        async for capture in js.stream_names(pattern):
            captured = True
            for subject, count in (await _subjects(js, capture, pattern)).items():
                tokens = subject.split(".")
                key = tokens[-2], tokens[-1]
                counts[key] = counts.get(key, 0) + count
    if not captured:
        return None
    ordered = sorted(counts.items(), key=lambda item: -item[1])[:_CONSUMERS]
    return [LetterCount(stream, consumer, count) for (stream, consumer), count in ordered]


async def _subjects(js: JetStream, capture: str, pattern: str) -> dict[str, int]:
    """The advisories by subject: the first page of the server, which has 100,000."""
    request = StreamInfoRequest(subjects_filter=pattern)
    answer: dict[str, Any] = await js.api.call(endpoints.STREAM_INFO, request, stream=capture)
    return StreamInfo.from_wire(answer).state.subjects


async def read_letters(
    js: JetStream, stream: str, consumer: str, start: dict[str, int] | None = None
) -> LetterPage:
    """A page of the dead letters of a consumer. Raises `UsageError` if no stream captures advisories."""
    advisories: list[bytes] = []
    places: dict[tuple[int, str], list[tuple[str, int]]] = {}
    following: dict[str, int] = {}
    for capture, subjects in (await captures(js.api, stream, consumer)).items():
        if start and capture not in start:
            continue
        first = (start or {}).get(capture, 1)
        reader = await js.ordered_consumer(capture, filter_subjects=subjects, opt_start_seq=first)
        try:
            batch = await reader.fetch_no_wait(_PAGE)
        finally:
            await reader.delete()
        for message in batch:
            sequence = message.metadata.sequence.stream
            if len(batch) == _PAGE:
                following[capture] = sequence + 1
            key = _key(message.data)
            if key is not None:
                if key not in places:
                    advisories.append(message.data)
                places.setdefault(key, []).append((capture, sequence))
    letters: list[Letter] = []
    for index in range(0, len(advisories), _AT_ONCE):
        part = advisories[index : index + _AT_ONCE]
        joined = await joined_letters(js.api, stream, consumer, part)
        letters += [_letter(each, places[each.sequence, each.kind]) for each in joined]
    return LetterPage(letters, following)


def _key(advisory: bytes) -> tuple[int, str] | None:
    """The sequence and kind of a dead letter; None for anything else: any client may publish advisories."""
    try:
        event = parse_advisory(advisory)
    except RemoteProtocolError:
        return None
    if isinstance(event, MessageTerminated):
        return event.stream_seq, "terminated"
    return (event.stream_seq, "max_deliveries") if isinstance(event, MaxDeliveries) else None


def _letter(letter: DeadLetter, advisories: list[tuple[str, int]]) -> Letter:
    message = letter.message
    return Letter(
        stream=letter.stream,
        consumer=letter.consumer,
        sequence=letter.sequence,
        kind=letter.kind,
        reason=line(letter.reason or ""),
        deliveries=letter.deliveries,
        given_up=letter.timestamp,
        advisories=tuple(advisories),
        gone=message is None,
        is_replay=message is not None and REPLAYED_FROM in message.headers,
        subject=line(message.subject) if message is not None else "",
        size=len(message.data) if message is not None else 0,
        preview=preview(message.data) if message is not None else "",
    )


async def find_letter(js: JetStream, letter: Letter) -> DeadLetter:
    """The dead letter with its message, if the stream still has it."""
    message: StoredMessage | None = None
    try:
        stream = await js.get_stream(letter.stream)
        # One that is older than the stream is about another of the same name.
        if letter.given_up is None or letter.given_up >= stream.cached_info.created:
            message = await stream.get_message(letter.sequence)
    except (StreamNotFound, MessageNotFound):
        pass
    return DeadLetter(
        stream=letter.stream,
        consumer=letter.consumer,
        sequence=letter.sequence,
        deliveries=letter.deliveries,
        kind=letter.kind,
        reason=letter.reason,
        timestamp=letter.given_up,
        message=message,
    )
