"""How a streaming query gets on: where it begins, how far the next batch goes, what got lost meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from jetspark.errors import DataLoss
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.loss import DELETED, RECREATED, ROLLED_BACK, cause_of_lost_head, head_may_move
from jetspark.jetstream.read.stream_range import StreamRange
from jetspark.spark.options import SourceOptions, stream_matches
from jetspark.spark.read import streams as catalog
from jetspark.spark.read.offsets import Offset, StreamOffset
from jetspark.spark.read.partition import loss
from jetspark.spark.read.planning import Backlog, admit

__all__ = ["Limits", "Tracker"]


class Limits(NamedTuple):
    """How much a batch may take."""

    max_messages: int | None = None
    max_bytes: int | None = None


class Tracker:
    """Follows the streams of one query. It only looks; what it finds is in the offsets."""

    def __init__(self, js: JetStream, options: SourceOptions) -> None:
        self._js = js
        self._options = options
        self._told: set[tuple[object, ...]] = set()
        self._gone: set[str] = set()
        # Where the streams ended when it was told to `stop_here`.
        self._ends: dict[str, StreamOffset] | None = None

    async def begin(self) -> Offset:
        """Where a new query starts. Raises `StreamNotFound`, and `UsageError` for bounds that cannot be."""
        streams = await catalog.find_streams(self._js, self._options.stream)
        first = await catalog.starting(self._js, self._options, streams, "latest")
        offset = Offset(
            {name: _offset(info, first[name], first[name]) for name, info in streams.items()}, initial=True
        )
        for name, info in streams.items():
            self._resume(name, offset.streams[name], info)
        return offset

    async def stop_here(self) -> None:
        """What comes from now on is not read."""
        streams = await catalog.find_streams(self._js, self._options.stream, missing_ok=True)
        self._ends = _ends(streams)

    async def latest(self, known: Offset) -> Offset:
        """The end of the streams."""
        return Offset(_ends(await self._streams(known)))

    async def advance(self, before: Offset, limits: Limits) -> Offset:
        """The end of the batch that begins where another ended; the same offset if there is nothing new."""
        streams = await self._streams(before)
        after: dict[str, StreamOffset] = {}
        backlogs: dict[str, Backlog] = {}
        for name in sorted({*before.streams, *streams}):
            info = streams.get(name)
            if not stream_matches(name, self._options.stream):
                after[name] = before.streams[name]  # The user left it out since; it may come back.
                continue
            if self._ends is not None and name not in self._ends and name not in before.streams:
                continue  # It joined after the end.
            here = self._resume(name, before.streams.get(name), info)
            if info is not None:
                # What is gone is passed over, and takes no room in the batch.
                head = min(catalog.first_seq_of(info.state), catalog.next_seq_of(info.state))
                here = _offset(info, here.began, max(here.next_seq, head))
                backlogs[name] = Backlog(self._end(name, info) - here.next_seq, _weight(info))
            after[name] = here
        taken = admit(
            backlogs,
            max_messages=limits.max_messages,
            max_bytes=limits.max_bytes,
            position=sum(stream.next_seq for stream in after.values()),
        )
        for name, count in taken.items():
            if count:
                here = after[name]
                after[name] = StreamOffset(
                    created=here.created, began=here.began, next_seq=here.next_seq + count
                )
        return before if after == before.streams else Offset(after)

    async def clipped(self, ranges: list[StreamRange]) -> list[StreamRange]:
        """The ranges without what their streams no longer hold at the head: no tasks for nothing."""
        known = {each.stream: each.next_seq for each in ranges}
        streams = await catalog.find_streams(self._js, tuple(known), known)
        clipped = []
        for each in ranges:
            info = streams.get(each.stream)
            first_seq = each.first_seq
            if info is not None and info.created == each.created:
                # One is left for a task to notice, and to say or to fail, if it is a loss.
                head = catalog.first_seq_of(info.state)
                lost = head > first_seq and not head_may_move(info.config, info.state)
                first_seq = max(first_seq, min(head - lost, each.next_seq))
            clipped.append(
                StreamRange(
                    stream=each.stream, created=each.created, first_seq=first_seq, next_seq=each.next_seq
                )
            )
        return clipped

    async def _streams(self, known: Offset) -> dict[str, StreamInfo]:
        # What is known to be gone is not worth a second look each time.
        sequences = {
            name: 1 if name in self._gone else stream.next_seq for name, stream in known.streams.items()
        }
        return await catalog.find_streams(self._js, self._options.stream, sequences)

    def _end(self, name: str, info: StreamInfo) -> int:
        """Up to where a stream may be read."""
        end = catalog.next_seq_of(info.state)
        if self._ends is None:
            return end
        limit = self._ends.get(name)
        return min(end, limit.next_seq) if limit is not None and limit.created == info.created else 0

    def _resume(self, name: str, before: StreamOffset | None, info: StreamInfo | None) -> StreamOffset:
        """Where to go on in a stream. Raises `DataLoss`, or tells of it."""
        if info is None:
            assert before is not None
            self._lost(name, before.next_seq, None, DELETED)
            self._gone.add(name)
            return before
        self._gone.discard(name)
        first_seq, next_seq = catalog.first_seq_of(info.state), catalog.next_seq_of(info.state)
        if before is None:
            return _offset(info, first_seq, first_seq)
        if before.created != info.created:
            self._lost(name, before.next_seq, None, RECREATED)
            return _offset(info, first_seq, first_seq)
        if before.next_seq > next_seq:
            self._lost(name, next_seq, before.next_seq, ROLLED_BACK)
            return _offset(info, next_seq, next_seq)
        if before.next_seq < first_seq and not head_may_move(info.config, info.state):
            self._lost(name, before.next_seq, first_seq, cause_of_lost_head(info.config, info.state))
        return before

    def _lost(self, stream: str, first_seq: int, next_seq: int | None, cause: str) -> None:
        key = (stream, first_seq, cause)
        if key not in self._told:
            lost = DataLoss(stream=stream, first_seq=first_seq, next_seq=next_seq, cause=cause)
            loss(lost, self._options)
            self._told.add(key)


def _offset(info: StreamInfo, began: int, next_seq: int) -> StreamOffset:
    return StreamOffset(created=info.created, began=began, next_seq=next_seq)


def _ends(streams: dict[str, StreamInfo]) -> dict[str, StreamOffset]:
    return {
        name: _offset(info, catalog.first_seq_of(info.state), catalog.next_seq_of(info.state))
        for name, info in streams.items()
    }


def _weight(info: StreamInfo) -> float:
    return info.state.bytes / max(info.state.messages, 1)
