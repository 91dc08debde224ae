"""The progress of a streaming query: where it starts, where its next batch ends, what was lost in between."""

from __future__ import annotations

import dataclasses

import msgspec

from jetspark.errors import DataLoss
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.loss import DELETED, RECREATED, ROLLED_BACK, cause_of_lost_head, head_may_move
from jetspark.jetstream.read.ranges import StreamRange
from jetspark.spark.options import SourceOptions, stream_matches
from jetspark.spark.read.data_loss import report_loss
from jetspark.spark.read.offsets import Offset, StreamOffset
from jetspark.spark.read.planning import Backlog, Limits, admit
from jetspark.spark.read.streams import find_streams, first_seq_of, next_seq_of, starting_sequences

__all__ = ["Tracker"]


class Tracker:
    """Follows the streams of one query. It changes nothing on the server; its results are offsets."""

    def __init__(self, js: JetStream, options: SourceOptions) -> None:
        self._js = js
        self._options = options
        self._reported: set[tuple[object, ...]] = set()
        self._deleted: set[str] = set()
        # The streams as `advance` saw them. Spark calls `latest` and `clipped` right after it, once each.
        self._for_latest: dict[str, StreamInfo] | None = None
        self._for_clipped: dict[str, StreamInfo] | None = None
        # Where the streams ended when `stop_here` was called.
        self._ends: dict[str, StreamOffset] | None = None

    async def begin(self) -> Offset:
        """Where a new query starts. Raises `StreamNotFound`, and `UsageError` for impossible bounds."""
        streams = await find_streams(self._js, self._options.stream)
        first = await starting_sequences(self._js, self._options, streams, "latest")
        offset = Offset(
            {name: _offset(info, first[name], first[name]) for name, info in streams.items()}, initial=True
        )
        for name, info in streams.items():
            self._resume(name, offset.streams[name], info)
        return offset

    async def stop_here(self) -> None:
        """Read no message that is stored after this call."""
        streams = await find_streams(self._js, self._options.stream, missing_ok=True)
        self._ends = _ends(streams)

    @property
    def stopping(self) -> bool:
        """Whether `stop_here` was called."""
        return self._ends is not None

    async def latest(self, known: Offset) -> Offset:
        """The end of the streams, as `advance` has just seen it if it was called."""
        streams, self._for_latest = self._for_latest, None
        return Offset(_ends(await self._streams(known) if streams is None else streams))

    async def advance(self, before: Offset, limits: Limits) -> Offset:
        """The end of the batch that starts at `before`; `before` itself if there is nothing new."""
        streams = self._for_latest = self._for_clipped = await self._streams(before)
        after: dict[str, StreamOffset] = {}
        backlogs: dict[str, Backlog] = {}
        for name in sorted({*before.streams, *streams}):
            info = streams.get(name)
            if not stream_matches(name, self._options.stream):
                # The user removed it from the options, and may add it again.
                after[name] = before.streams[name]
                continue
            if self._ends is not None and name not in self._ends and name not in before.streams:
                continue  # Created after `stop_here`.
            here = self._resume(name, before.streams.get(name), info)
            if info is not None:
                # Removed messages are skipped, and do not count towards the limits.
                head = min(first_seq_of(info.state), next_seq_of(info.state))
                here = _offset(info, here.began, max(here.next_seq, head))
                backlogs[name] = Backlog(self._end(name, info) - here.next_seq, _weight(info))
            after[name] = here
        position = sum(stream.next_seq for stream in after.values())
        for name, count in admit(backlogs, limits, position=position).items():
            after[name] = dataclasses.replace(after[name], next_seq=after[name].next_seq + count)
        return before if after == before.streams else Offset(after)

    async def clipped(self, ranges: list[StreamRange]) -> list[StreamRange]:
        """The ranges without sequences before the head of their stream, so that no task reads nothing.

        The head is the one that `advance` has just seen, if it was called. A task that finds another one
        reports it.
        """
        streams, self._for_clipped = self._for_clipped, None
        if streams is None:
            known = {each.stream: each.next_seq for each in ranges}
            streams = await find_streams(self._js, tuple(known), known)
        clipped = []
        for each in ranges:
            info = streams.get(each.stream)
            first_seq = each.first_seq
            if info is not None and info.created == each.created:
                # If it is a loss, one sequence stays in the range: its task reports the loss.
                head = min(first_seq_of(info.state), each.next_seq)
                lost = head > first_seq and not head_may_move(info.config, info.state)
                first_seq = max(first_seq, head - lost)
            clipped.append(msgspec.structs.replace(each, first_seq=first_seq))
        return clipped

    async def _streams(self, known: Offset) -> dict[str, StreamInfo]:
        # A stream that is known to be deleted is not worth waiting for again.
        sequences = {
            name: 1 if name in self._deleted else stream.next_seq for name, stream in known.streams.items()
        }
        return await find_streams(self._js, self._options.stream, sequences)

    def _end(self, name: str, info: StreamInfo) -> int:
        """The sequence before which a stream may be read."""
        end = next_seq_of(info.state)
        if self._ends is None:
            return end
        limit = self._ends.get(name)
        return min(end, limit.next_seq) if limit is not None and limit.created == info.created else 0

    def _resume(self, name: str, before: StreamOffset | None, info: StreamInfo | None) -> StreamOffset:
        """Where to continue in a stream. Reports losses, each once."""
        if info is None:
            assert before is not None
            self._lost(name, before.next_seq, None, DELETED)
            self._deleted.add(name)
            return before
        self._deleted.discard(name)
        first_seq, next_seq = first_seq_of(info.state), next_seq_of(info.state)
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
        if key not in self._reported:
            lost = DataLoss(stream=stream, first_seq=first_seq, next_seq=next_seq, cause=cause)
            report_loss(lost, self._options)
            self._reported.add(key)


def _offset(info: StreamInfo, began: int, next_seq: int) -> StreamOffset:
    return StreamOffset(created=info.created, began=began, next_seq=next_seq)


def _ends(streams: dict[str, StreamInfo]) -> dict[str, StreamOffset]:
    return {
        name: _offset(info, first_seq_of(info.state), next_seq_of(info.state))
        for name, info in streams.items()
    }


def _weight(info: StreamInfo) -> float:
    return info.state.bytes / max(info.state.messages, 1)
