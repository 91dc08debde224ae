"""Ids of lines that the stream stored beyond the saved positions, read back so that they are not sent again.

There are such lines after a crash between an acknowledgement and the next save of positions, and after the
stream rejected one line and stored later ones. The `duplicate_window` of the stream covers both for a while;
the ids cover them for as long as the messages exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from jetspark.errors import MessageNotFound, RemoteProtocolError, Timeout, UsageError
from jetspark.jetstream import api
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg, parse_stored
from jetspark.jetstream.model.stream import RetentionPolicy
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.positions import FilePosition, JournalPosition
from jetspark.logs.format.message import id_prefix

__all__ = ["StoredIds"]

#: Seconds that the clock may have been wrong in the past, beyond its error now.
_SLACK: Final = 30.0
_BATCH: Final = 5000
#: Seconds that a replica may lag behind its leader.
_LAG: Final = 10.0
_LOOK: Final = 0.1


class StoredIds:
    """Ids of stored lines beyond the positions. Usually empty."""

    def __init__(self, js: JetStream, options: ShipOptions) -> None:
        self._js = js
        self._host = options.host
        self._subjects = options.subjects
        self.ids: set[str] = set()
        #: Since when there may be such lines; None if there are none. Kept until the positions pass all of
        #: them.
        self.since: float | None = None
        # The start of the ids of journals: an entry may belong to another series than that of the position.
        self._any_series: set[str] = set()
        #: For each stream, the sequence to read from next.
        self._next: dict[str, int] = {}

    def discard(self, ids: Sequence[str]) -> None:
        """Drop ids that a position has passed."""
        if self.ids and ids:
            self.ids.difference_update(ids)
            if not self.ids:
                self.clear()

    def forget(self, positions: Iterable[FilePosition]) -> None:
        """Drop the ids of files that are read to their ends."""
        if self.ids:
            prefixes = {id_prefix(self._host, each.identity) for each in positions}
            self.discard([each for each in self.ids if _prefix_of(each) in prefixes])

    def clear(self) -> None:
        """Drop all ids: there are no such lines, or they cannot be read back."""
        self.ids.clear()
        self.since = None
        self._next.clear()

    async def read_back(
        self, positions: Iterable[FilePosition], journals: Iterable[JournalPosition] = ()
    ) -> None:
        """Read the ids of lines beyond these positions that were stored after `since`.

        Raises `UsageError` if the stream deletes consumed messages, and the errors of reading.
        """
        offsets = {id_prefix(self._host, each.identity): each.offset for each in positions if each.head}
        for journal in journals:
            self._any_series.add(id_prefix(self._host, journal.prefix))
            if (place := journal.place) is not None:
                offsets[id_prefix(self._host, f"{journal.prefix}-{place[0]}")] = place[1] + 1
        self.ids = {each for each in self.ids if self._is_beyond(each, offsets)}
        if self.since is not None and (offsets or self._any_series):
            streams: dict[str, list[str]] = {}
            for subject in self._subjects:
                async for stream in self._js.stream_names(subject=subject):
                    streams.setdefault(stream, []).append(subject)
            for stream, subjects in streams.items():
                await self._read(stream, subjects, offsets, self.since)
        if not self.ids:
            self.clear()

    async def _read(
        self, stream: str, subjects: Sequence[str], offsets: dict[str, int], since: float
    ) -> None:
        info = await (await self._js.get_stream(stream)).info()
        if info.config.retention != RetentionPolicy.LIMITS:
            raise UsageError(f"stream {stream} deletes consumed messages")
        found = [each for each in [await self._last(stream, subject) for subject in subjects] if each]
        last = max((each.sequence for each in found), default=0)
        now = datetime.now(UTC)
        clock_error = (info.ts or now) - now  # of our clock, seen from the server
        start = datetime.fromtimestamp(since, UTC) + clock_error - timedelta(seconds=_SLACK)
        first = self._next.get(stream, 0)
        if all(each.time < start for each in found) or last < first:
            return
        reader = await self._js.ordered_consumer(
            stream,
            filter_subjects=subjects,
            headers_only=True,
            opt_start_seq=first or None,
            opt_start_time=None if first else start,
        )
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + _LAG
            while first <= last:
                batch = await reader.fetch_no_wait(_BATCH)
                self.ids.update(each for each in map(_id_of, batch) if self._is_beyond(each, offsets))
                if batch:
                    first = self._next[stream] = batch[-1].metadata.sequence.stream + 1
                    deadline = loop.time() + _LAG
                elif loop.time() >= deadline:
                    raise Timeout(f"stream {stream} was read up to {first - 1} of {last} only")
                else:
                    await asyncio.sleep(_LOOK)
        finally:
            await reader.delete()

    async def _last(self, stream: str, subject: str) -> StoredMsg | None:
        """The last message of a subject, from the leader: a replica may lack acknowledged messages."""
        try:
            request = MsgGetRequest(last_by_subj=subject)
            return parse_stored(await self._js.api.call(api.MSG_GET, request, stream=stream))
        except MessageNotFound:
            return None

    def _is_beyond(self, msg_id: str, offsets: dict[str, int]) -> bool:
        """Whether it is the id of a line at or after the offset of its file."""
        prefix = _prefix_of(msg_id)
        offset = offsets.get(prefix)
        if offset is None:
            return _prefix_of(prefix[:-1]) in self._any_series
        number = msg_id[len(prefix) :].partition("+")[0]
        return number.isdecimal() and len(number) < 20 and int(number) >= offset


def _id_of(message: JetStreamMsg) -> str:
    try:
        return message.headers.get("Nats-Msg-Id", "")
    except RemoteProtocolError:
        return ""  # Not published by an agent.


def _prefix_of(msg_id: str) -> str:
    return msg_id[: msg_id.rfind("-") + 1]
