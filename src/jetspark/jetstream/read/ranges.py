"""Reading the sequences [first, next) of a stream: every message once and in order.

This is the work of a Spark task. A range that is read twice gives the same messages, as long as the stream
holds them. A range is complete when a message at or after its end arrived, or when the leader of the stream
reports that no further message matches. The ordered consumer that reads it survives lost connections, new
leaders and deleted consumers.

Streams that delete acknowledged messages (work queue, interest) must not get another consumer: they are read
by batches of direct gets. A few messages are requested from the leader one by one, all at once: if every
sequence is there, that is complete and much cheaper than a consumer.

Before messages are returned, the stream is checked again: whether it is still the same one, and whether its
head has overtaken the reader. So every missing message is reported, and messages of another stream with the
same name are never returned.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from jetspark.errors import DataLoss, Error, MessageNotFound, StreamNotFound, Timeout, UsageError
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.stored import not_direct_get, parse_direct_get
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg, parse_stored
from jetspark.jetstream.model.stream import RetentionPolicy, StreamConfig
from jetspark.jetstream.ordered.pull import OrderedConsumer, pull_buffer
from jetspark.jetstream.read import direct
from jetspark.jetstream.read.lookup import next_stored
from jetspark.jetstream.read.loss import DELETED, RECREATED, ROLLED_BACK, cause_of_lost_head, head_may_move
from jetspark.jetstream.retry import OUTAGE, Backoff, retry
from jetspark.wire import MsgFrame, total_size

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_MESSAGES",
    "FEW",
    "Chunk",
    "OnLoss",
    "StreamRange",
    "raise_loss",
    "read_range",
    "reads_direct",
    "stream_info",
]

#: Messages as a consumer delivered them, with metadata in the reply subject; or, without a reply, as direct
#: gets answered, with metadata in the headers (`stored.parse_direct_get`).
Chunk: TypeAlias = list[MsgFrame]
#: Called with each loss. It raises the error, or returns so that reading continues after the loss.
OnLoss: TypeAlias = Callable[[DataLoss], None]

#: The size of a chunk: enough to be worth a check of the stream.
CHUNK_MESSAGES: Final = 10_000
CHUNK_BYTES: Final = 4 * 1024 * 1024
#: Sequences up to which a range is read without a consumer.
FEW: Final = 16
#: Most bytes that are requested or buffered. A larger message gets room for itself.
_MAX_BYTES: Final = 8 * 1024 * 1024
#: Least bytes that are requested, when little of a range is left.
_MIN_BYTES: Final = 32 * 1024
#: Bytes of a message beyond those that the stream counts: the reply subject.
_OVERHEAD: Final = 96
#: The estimate for a message without its payload.
_HEADERS_ONLY: Final = 256
#: Seconds without use after which the server deletes a consumer that the reader could not delete.
_INACTIVE_THRESHOLD: Final = 30.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StreamRange(msgspec.Struct, frozen=True, kw_only=True):
    """The sequences [first_seq, next_seq) of the stream that was created at `created`."""

    stream: str
    created: datetime
    first_seq: int
    next_seq: int

    def __len__(self) -> int:
        return max(self.next_seq - self.first_seq, 0)


def reads_direct(config: StreamConfig) -> bool:
    """Whether ranges of the stream must be read by direct get. Raises `UsageError` if that is not allowed."""
    if config.retention in (RetentionPolicy.LIMITS, None):
        return False
    if not config.allow_direct:
        raise UsageError(
            f"stream {config.name} has retention {config.retention!s} and does not allow direct gets",
            hint="Another consumer would disturb its delivery: update the stream with allow_direct=True",
        )
    return True


async def stream_info(
    api: API, name: str, *, reaching: int = 0, created: datetime | None = None, outage: float = OUTAGE
) -> StreamInfo:
    """The stream, with retries until a server answers, for `outage` seconds. Raises `StreamNotFound`.

    A server that just started may not know a stream yet, and a new leader may not have caught up. Neither is
    believed at once when the stream should reach the sequence `reaching`. A stream that was created after
    `created` is another one, which need not reach it.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (api.timing.stream_missing if reaching else 0)
    while True:
        late = loop.time() >= deadline
        try:
            info = await retry(lambda: streams.info(api, name), outage)
        except StreamNotFound:
            if late:
                raise
        else:
            replaced = created is not None and info.created > created
            if info.state.last_seq >= reaching or replaced or late:
                return info
        await asyncio.sleep(api.timing.stream_look_again)


def raise_loss(loss: DataLoss) -> None:
    """The default of `on_loss`."""
    raise loss


def read_range(
    api: API,
    wanted: StreamRange,
    *,
    subjects: Sequence[str] = (),
    on_loss: OnLoss = raise_loss,
    outage: float = OUTAGE,
    headers_only: bool = False,
) -> AsyncGenerator[Chunk, None]:
    """The messages of a range that match one of `subjects`, in order, some ten thousand at a time.

    `next_seq` must not be beyond the end of the stream: messages that are not stored yet are not awaited.
    `on_loss` is called with each loss; by default it raises it. With `headers_only` the server leaves the
    payloads out where it can, and puts their sizes into the header `Nats-Msg-Size`. Raises `UsageError` and
    `ConnectionClosed`, and transient errors after `outage` seconds.
    """
    return _RangeReader(api, wanted, subjects, on_loss, outage=outage, headers_only=headers_only).chunks()


class _RangeReader:
    """Reads one range."""

    def __init__(
        self,
        api: API,
        wanted: StreamRange,
        subjects: Sequence[str],
        on_loss: OnLoss,
        *,
        outage: float,
        headers_only: bool,
    ) -> None:
        self._api = api
        self._outage = outage
        self._headers_only = headers_only
        self._wanted = wanted
        self._subjects = list(subjects)
        self._on_loss = on_loss
        # Everything before it was returned, or reported as lost.
        self._position = wanted.first_seq
        self._max_bytes = max(_MAX_BYTES, 2 * api.connection.max_payload)

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        if not len(self._wanted):
            return
        if len(self._wanted) <= FEW and (messages := await self._gets()) is not None:
            if await self._check(messages, self._wanted.next_seq) and (chunk := self._matching(messages)):
                yield chunk
            return
        info = await self._look()
        if info is None:
            return
        try:
            async with aclosing(self._gathered(info)) as chunks:
                async for chunk, next_seq in chunks:
                    if not await self._check(chunk, next_seq):
                        return
                    if chunk:
                        yield chunk
        except StreamNotFound:
            if await self._look() is not None:
                raise  # The stream exists: the answer was wrong, and the range has to be read again.

    async def _gathered(self, info: StreamInfo) -> AsyncGenerator[tuple[Chunk, int], None]:
        """Chunks, each with the sequence up to which it is complete."""
        source = self._direct() if reads_direct(info.config) else self._ordered(info)
        chunk: Chunk = []
        size = 0
        async with aclosing(source) as arriving:
            async for messages in arriving:
                chunk += messages
                size += total_size(messages)
                if len(chunk) < CHUNK_MESSAGES and size < CHUNK_BYTES:
                    continue
                yield chunk, _sequence(chunk[-1]) + 1
                chunk, size = [], 0
        yield chunk, self._wanted.next_seq

    async def _gets(self) -> Chunk | None:
        """The messages of all sequences, as the leader holds them; None if one is missing.

        Then the leader may not have caught up yet: the stream must be checked first.
        """
        stream = self._wanted.stream

        async def get(seq: int) -> MsgFrame:
            request = MsgGetRequest(seq=seq)
            call = functools.partial(self._api.call, endpoints.MSG_GET, request, stream=stream)
            answer = await retry(call, self._outage)
            return _delivered(stream, parse_stored(answer))

        sequences = range(self._wanted.first_seq, self._wanted.next_seq)
        chunk: Chunk = []
        for result in await asyncio.gather(*map(get, sequences), return_exceptions=True):
            if isinstance(result, (MessageNotFound, StreamNotFound)):
                return None
            if isinstance(result, BaseException):
                raise result
            chunk.append(result)
        return chunk

    def _matching(self, chunk: Chunk) -> Chunk:
        if not self._subjects:
            return chunk
        matches = _matcher(self._subjects)
        return [frame for frame in chunk if matches(frame.subject)]

    # --- two ways to read more; both end when the whole range was seen

    async def _ordered(self, info: StreamInfo) -> AsyncGenerator[list[MsgFrame], None]:
        wanted = self._wanted
        consumer = OrderedConsumer(
            self._api,
            wanted.stream,
            filter_subjects=self._subjects,
            opt_start_seq=wanted.first_seq,
            inactive_threshold=_INACTIVE_THRESHOLD,
            headers_only=self._headers_only,
        )
        buffer = pull_buffer(consumer, {"max_bytes": self._max_bytes, "expires": 30.0}, None)
        weight = info.state.bytes / max(info.state.messages, 1) + _OVERHEAD
        if self._headers_only:
            weight = min(weight, _HEADERS_ONLY)
        buffer.narrow(self._room(len(wanted), weight))
        await retry(buffer.start, self._outage)
        try:
            begun = consumer.cached_info
            last = wanted.first_seq - 1
            idle = bool(begun and not begun.num_pending)
            loop = asyncio.get_running_loop()
            progress = loop.time()
            silence = self._api.timing.reading_silence
            while True:
                frames = [] if idle else await buffer.take(silence)
                if frames:
                    progress = loop.time()
                    metadata = parse_metadata(frames[-1].reply)
                    last, idle = metadata.sequence.stream, not metadata.num_pending
                    if last >= wanted.next_seq:
                        frames = _before(frames, wanted.next_seq)
                    if frames:
                        yield frames
                    if last >= wanted.next_seq - 1:
                        return
                    buffer.narrow(self._room(wanted.next_seq - 1 - last, weight))
                    if not idle:
                        continue
                elif buffer.error is not None:
                    raise buffer.error
                if await self._is_last(last):
                    return
                idle = False
                if loop.time() - progress > self._outage:
                    raise self._stuck(last)
        finally:
            await buffer.stop()

    def _room(self, messages: int, weight: float) -> int:
        """Bytes to request for so many messages: more would deliver messages after the range."""
        return min(max(math.ceil(messages * weight * 1.1), _MIN_BYTES), self._max_bytes)

    async def _direct(self) -> AsyncGenerator[list[MsgFrame], None]:
        """A direct get takes one filter: the server applies it; several are applied here."""
        wanted, subjects = self._wanted, self._subjects
        one = subjects[0] if len(subjects) == 1 else None
        matches = _matcher(subjects) if len(subjects) > 1 else None
        last = wanted.first_seq - 1
        backoff = Backoff(self._outage)
        while True:
            before = last
            request = MsgGetRequest(seq=last + 1, next_by_subj=one or ">", batch=wanted.next_seq - 1 - last)
            try:
                async with aclosing(direct.batches(self._api, wanted.stream, request)) as batches:
                    async for answers in batches:
                        last, frames = _sequence(answers[-1]), answers
                        if last >= wanted.next_seq:
                            frames = _before(frames, wanted.next_seq)
                        if matches is not None:
                            frames = [frame for frame in frames if matches(parse_direct_get(frame.header)[1])]
                        if frames:
                            yield frames
                        if last >= wanted.next_seq - 1:
                            return
            except Error as error:
                if not error.transient:
                    raise
            if await self._is_last(last):
                return
            if last > before:
                backoff.renew()
            elif not await backoff.pause():
                raise self._stuck(last)

    def _stuck(self, last: int) -> Timeout:
        return Timeout(
            f"stream {self._wanted.stream} has messages after {last}, none arrived for {self._outage:g} s",
            hint="Check the cluster: a server that was asked may lag behind the leader",
        )

    async def _is_last(self, last: int) -> bool:
        """Whether the leader knows no further message of the range."""
        following = await next_stored(
            self._api, self._wanted.stream, last + 1, self._subjects, outage=self._outage
        )
        return following is None or following.sequence >= self._wanted.next_seq

    # --- checks

    async def _look(self) -> StreamInfo | None:
        """The stream, if it is still the same; None after a loss that `on_loss` accepted."""
        wanted = self._wanted
        try:
            info = await stream_info(
                self._api,
                wanted.stream,
                reaching=wanted.next_seq - 1,
                created=wanted.created,
                outage=self._outage,
            )
        except StreamNotFound:
            cause = DELETED
        else:
            if info.created == wanted.created and info.state.last_seq >= wanted.next_seq - 1:
                reads_direct(info.config)
                return info
            cause = ROLLED_BACK if info.created == wanted.created else RECREATED
        self._lost(wanted.next_seq, cause)
        return None

    async def _check(self, chunk: Chunk, next_seq: int) -> bool:
        """Whether a chunk, which is complete from the last one up to `next_seq`, may be returned."""
        info = await self._look()
        if info is None:
            return False
        head = min(info.state.first_seq, next_seq)
        if head > self._position and not head_may_move(info.config, info.state):
            # Messages before the head that were read before they vanished are not lost.
            missing = _first_missing(chunk, self._position)
            if missing < head:
                self._position = missing
                self._lost(head, cause_of_lost_head(info.config, info.state))
        self._position = next_seq
        return True

    def _lost(self, next_seq: int, cause: str) -> None:
        self._on_loss(
            DataLoss(stream=self._wanted.stream, first_seq=self._position, next_seq=next_seq, cause=cause)
        )


def _delivered(stream: str, message: StoredMsg) -> MsgFrame:
    """A message as a consumer would have delivered it."""
    nanoseconds = (message.time - _EPOCH) // timedelta(microseconds=1) * 1000
    reply = f"$JS.ACK.{stream}.get.1.{message.sequence}.1.{nanoseconds}.0"
    return MsgFrame(b"", message.subject.encode(), reply.encode(), message.hdrs, message.data)


def _sequence(frame: MsgFrame) -> int:
    if frame.reply:
        return parse_metadata(frame.reply).sequence.stream
    sequence = parse_direct_get(frame.header)[2]
    if not sequence.isdigit() or len(sequence) > 20:
        raise not_direct_get(frame.header)
    return int(sequence)


def _before(frames: list[MsgFrame], next_seq: int) -> list[MsgFrame]:
    """The frames, which are in order, of the messages before `next_seq`."""
    return frames[: bisect_left(frames, next_seq, key=_sequence)]


def _first_missing(chunk: Chunk, position: int) -> int:
    """The first sequence from `position` on that is not in the chunk."""
    for message in chunk:
        if _sequence(message) != position:
            break
        position += 1
    return position


def _matcher(subjects: Sequence[str]) -> Callable[[bytes], object]:
    """A function that returns whether a subject matches one of several patterns."""
    patterns = [rb"\.".join(map(_token, subject.split("."))) for subject in subjects]
    return re.compile(b"|".join(patterns), re.DOTALL).fullmatch


def _token(token: str) -> bytes:
    return {"*": rb"[^.]+", ">": rb".+"}.get(token) or re.escape(token.encode("utf-8", "surrogateescape"))
