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
from jetspark.jetstream.model.requests import MsgGetRequest, parse_stored
from jetspark.jetstream.model.stream import RetentionPolicy
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.positions import FilePosition
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
        self._subject = options.subject
        self.ids: set[str] = set()
        #: Since when there may be such lines; None if there are none. Kept until the positions pass all of
        #: them.
        self.since: float | None = None
        self._next = 0

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
        self.since, self._next = None, 0

    async def read_back(self, positions: Iterable[FilePosition]) -> None:
        """Read the ids of lines beyond these positions that were stored after `since`.

        Raises `UsageError` if the stream deletes consumed messages, and the errors of reading.
        """
        offsets = {id_prefix(self._host, each.identity): each.offset for each in positions if each.head}
        self.ids = {each for each in self.ids if _is_beyond(each, offsets)}
        if self.since is not None and offsets:
            async for stream in self._js.stream_names(subject=self._subject):
                await self._read(stream, offsets, self.since)
        if not self.ids:
            self.clear()

    async def _read(self, stream: str, offsets: dict[str, int], since: float) -> None:
        info = await (await self._js.get_stream(stream)).info()
        if info.config.retention != RetentionPolicy.LIMITS:
            raise UsageError(f"stream {stream} deletes consumed messages")
        try:
            # From the leader: a replica may lack acknowledged messages.
            request = MsgGetRequest(last_by_subj=self._subject)
            answer = await self._js.api.call(api.MSG_GET, request, stream=stream)
        except MessageNotFound:
            return
        last = parse_stored(answer)
        now = datetime.now(UTC)
        clock_error = (info.ts or now) - now  # of our clock, seen from the server
        start = datetime.fromtimestamp(since, UTC) + clock_error - timedelta(seconds=_SLACK)
        if last.time < start or last.sequence < self._next:
            return
        reader = await self._js.ordered_consumer(
            stream,
            filter_subjects=[self._subject],
            headers_only=True,
            opt_start_seq=self._next or None,
            opt_start_time=None if self._next else start,
        )
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + _LAG
            while self._next <= last.sequence:
                batch = await reader.fetch_no_wait(_BATCH)
                self.ids.update(each for each in map(_id_of, batch) if _is_beyond(each, offsets))
                if batch:
                    self._next = batch[-1].metadata.sequence.stream + 1
                    deadline = loop.time() + _LAG
                elif loop.time() >= deadline:
                    raise Timeout(f"stream {stream} was read up to {self._next - 1} of {last.sequence} only")
                else:
                    await asyncio.sleep(_LOOK)
        finally:
            await reader.delete()


def _id_of(message: JetStreamMsg) -> str:
    try:
        return message.headers.get("Nats-Msg-Id", "")
    except RemoteProtocolError:
        return ""  # Not published by an agent.


def _prefix_of(msg_id: str) -> str:
    return msg_id[: msg_id.rfind("-") + 1]


def _is_beyond(msg_id: str, offsets: dict[str, int]) -> bool:
    """Whether it is the id of a line at or after the offset of its file."""
    prefix = _prefix_of(msg_id)
    offset = offsets.get(prefix)
    number = msg_id[len(prefix) :].partition("+")[0]
    return offset is not None and number.isdecimal() and len(number) < 20 and int(number) >= offset
