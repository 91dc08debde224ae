"""How far a streaming query is behind: from the offsets in its progress. Pure."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from jetspark.errors import UsageError

__all__ = ["Lag", "end_offsets", "known_lag", "lag"]


class Lag(NamedTuple):
    """Messages that a query has not read."""

    #: In all streams.
    messages: int
    #: By stream.
    streams: dict[str, int]


def lag(progress: Mapping[str, Any] | str) -> Lag | None:
    """How many messages a query on `format("jetstream")` has not read, after a batch.

    Takes a `StreamingQueryProgress`, as `query.lastProgress`, or its JSON as a dict or as text. It counts
    sequences up to the ends of the streams: with `subjects` or deleted messages there are fewer messages.
    Returns None when that is unknown, as for the option `consumer`. Before Spark 4.2, the progress has the
    end of the batch in their place, and so the lag is 0. Raises `UsageError` if it is not a progress.
    """
    streams: dict[str, int] = {}
    known = False
    for source in _sources(progress):
        end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        if end is None:
            continue
        if latest is None or "consumer" in end:
            return None
        known = True
        for name, stream in latest["streams"].items():
            before = end["streams"].get(name)
            same = before is not None and before.get("created") == stream.get("created")
            reached = before["next_seq"] if same else stream["began"]
            streams[name] = streams.get(name, 0) + max(stream["next_seq"] - reached, 0)
    return Lag(sum(streams.values()), streams) if known else None


def known_lag(progress: Mapping[str, Any] | str) -> int | None:
    """The messages of `lag`; None if they are unknown, as before Spark 4.2. Requires pyspark."""
    # The module that lets a source tell Spark the ends of its streams.
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return None
    found = lag(progress)
    return None if found is None else found.messages


def end_offsets(progress: Mapping[str, Any] | str) -> list[Mapping[str, Any]]:
    """The end offsets of the sources that are `format("jetstream")`."""
    offsets = [_offset(source.get("endOffset")) for source in _sources(progress)]
    return [offset for offset in offsets if offset is not None]


def _sources(progress: Mapping[str, Any] | str) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(progress) if isinstance(progress, str) else progress
        sources = [source for source in document["sources"] if isinstance(source, Mapping)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"not the progress of a query: {progress!r:.80}", hint="Pass query.lastProgress, or its JSON"
        ) from None
    return sources


def _offset(offset: object) -> Mapping[str, Any] | None:
    """An offset of `format("jetstream")`; None for any other.

    In a progress object of Spark, it is text: JSON, or before 4.2 the repr of a dict.
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except (ValueError, RecursionError):
            try:
                offset = ast.literal_eval(str(offset))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
    if not isinstance(offset, Mapping) or "version" not in offset:
        return None
    streams = offset.get("streams")
    if not isinstance(streams, Mapping):
        return None
    numbers = ("next_seq", "began") if "consumer" not in offset else ()
    for stream in streams.values():
        if not isinstance(stream, Mapping) or not all(isinstance(stream.get(key), int) for key in numbers):
            return None
    return offset
