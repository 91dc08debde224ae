"""The streams that a query reads, as they are now, and the sequences of its bounds in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jetspark.errors import UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo, StreamState
from jetspark.jetstream.read.listing import concurrently, stream_infos, stream_names
from jetspark.jetstream.read.lookup import first_at
from jetspark.jetstream.read.ranges import reads_direct, stream_info
from jetspark.spark.options import PositionOption, SourceOptions, TimeOption, stream_matches

__all__ = ["ending_sequences", "find_streams", "first_seq_of", "next_seq_of", "starting_sequences"]


async def find_streams(
    js: JetStream,
    patterns: Sequence[str],
    known: Mapping[str, int] | None = None,
    *,
    missing_ok: bool = False,
) -> dict[str, StreamInfo]:
    """The streams that match patterns, by name.

    `known` streams, each with its next sequence, may be missing; with `missing_ok`, all streams may. Raises
    `StreamNotFound`, and `UsageError` for a stream that cannot be read.
    """
    known = known or {}
    named = {pattern for pattern in patterns if "*" not in pattern}
    names, listed = set(named), list[str]()
    if len(named) < len(patterns):
        listed = await stream_names(js.api)
        names.update(name for name in {*listed, *known} if stream_matches(name, patterns))
    reaching = {name: known.get(name, 1) - 1 for name in sorted(names)}
    found = await stream_infos(js.api, reaching, listed)
    for name in sorted(named - found.keys() - known.keys()):
        if not missing_ok:
            found[name] = await stream_info(js.api, name)  # Raises the error of the server.
    for info in found.values():
        reads_direct(info.config)
    return found


def first_seq_of(state: StreamState) -> int:
    """The sequence of the first message, or of the first one to come."""
    return max(state.first_seq, 1)


def next_seq_of(state: StreamState) -> int:
    """The sequence of the next message to come."""
    return state.last_seq + 1


async def starting_sequences(
    js: JetStream, options: SourceOptions, streams: Mapping[str, StreamInfo], default: str
) -> dict[str, int]:
    """The first sequence to read, by stream. Raises `UsageError` for one beyond the next message."""
    bound = _Bound("startingPosition", options.starting_position or default, options.starting_timestamp)
    return await bound.sequences(js, streams, default)


async def ending_sequences(
    js: JetStream, options: SourceOptions, streams: Mapping[str, StreamInfo]
) -> dict[str, int]:
    """The sequence after the last one to read, by stream. Raises `UsageError` for one in the future."""
    bound = _Bound("endingPosition", options.ending_position or "latest", options.ending_timestamp)
    return await bound.sequences(js, streams, "latest")


class _Bound(NamedTuple):
    """The start or the end of a read, as the options give it."""

    option: str
    position: PositionOption
    time: TimeOption | None

    async def sequences(
        self, js: JetStream, streams: Mapping[str, StreamInfo], default: str
    ) -> dict[str, int]:
        times = dict(self.time) if isinstance(self.time, tuple) else dict.fromkeys(streams, self.time)

        async def first(info: StreamInfo) -> int:
            time = times.get(info.config.name)
            if time is None:
                return self._sequence(info, default)
            return await first_at(js.api, info.config.name, info.state, time)

        return dict(zip(streams, await concurrently(first, streams.values()), strict=True))

    def _sequence(self, info: StreamInfo, default: str) -> int:
        name, state = info.config.name, info.state
        if isinstance(self.position, str):
            position: str | int = self.position
        else:
            position = dict(self.position).get(name, default)
        if position == "earliest":
            return first_seq_of(state)
        if isinstance(position, str):
            return next_seq_of(state)
        if position > next_seq_of(state):
            raise UsageError(
                f"{self.option} {position} of stream {name} is in the future",
                hint=f"The next message will be {next_seq_of(state)}",
            )
        return position
