"""What the stream has of an agent's lines though no position says so: read back, to send it no more.

That is so after a crash, which comes between the acknowledgement of lines and the next save of positions,
and after a row of lines of which the stream refused one and took others behind it. The `duplicate_window` of
the stream covers both for a while; this does for as long as the messages are there.
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
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg
from jetspark.jetstream.model.stream import RetentionPolicy
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.positions import Position
from jetspark.logs.format.message import id_prefix

__all__ = ["StoredIds"]

#: Seconds by which a clock may have been wrong, beyond what it is wrong now.
_SLACK: Final = 30.0
_BATCH: Final = 5000
#: Seconds that a replica may be behind its leader.
_LAG: Final = 10.0
_LOOK: Final = 0.1


class StoredIds:
    """Ids of lines behind the positions that the stream has. Empty most of the time."""

    def __init__(self, js: JetStream, options: ShipOptions) -> None:
        self._js = js
        self._host = options.host
        self._subject = options.subject
        self.ids: set[str] = set()
        #: Since when there may be such lines; None when there are none. It stays until all are passed.
        self.since: float | None = None
        self._next = 0

    def discard(self, ids: Sequence[str]) -> None:
        """These are before a position now."""
        if self.ids and ids:
            self.ids.difference_update(ids)
            if not self.ids:
                self.clear()

    def forget(self, positions: Iterable[Position]) -> None:
        """The files of these positions are read to their ends: what is left of them is not asked for."""
        if self.ids:
            prefixes = {id_prefix(self._host, each.identity) for each in positions}
            self.discard([each for each in self.ids if _prefix_of(each) in prefixes])

    def clear(self) -> None:
        """There are no such lines, or nobody can say which."""
        self.ids.clear()
        self.since, self._next = None, 0

    async def read_back(self, positions: Iterable[Position]) -> None:
        """Find out which lines behind these positions were stored after `since`.

        Raises `UsageError` where the stream does not keep messages, and what reading raises.
        """
        offsets = {id_prefix(self._host, each.identity): each.offset for each in positions if each.head}
        self.ids = {each for each in self.ids if _is_behind(each, offsets)}
        if self.since is not None and offsets:
            async for stream in self._js.stream_names(subject=self._subject):
                await self._read(stream, offsets, self.since)
        if not self.ids:
            self.clear()

    async def _read(self, stream: str, offsets: dict[str, int], since: float) -> None:
        info = await (await self._js.get_stream(stream)).info()
        if info.config.retention != RetentionPolicy.LIMITS:
            raise UsageError(f"stream {stream} forgets what was consumed")
        try:
            # From the leader: nobody else surely has everything that was acknowledged.
            request = MsgGetRequest(last_by_subj=self._subject)
            answer = await self._js.api.call(api.MSG_GET, request, stream=stream)
        except MessageNotFound:
            return
        last = StoredMsg.from_wire(answer["message"])
        now = datetime.now(UTC)
        wrong_by = (info.ts or now) - now  # our clock, as the server sees it
        start = datetime.fromtimestamp(since, UTC) + wrong_by - timedelta(seconds=_SLACK)
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
                self.ids.update(each for each in map(_id_of, batch) if _is_behind(each, offsets))
                if batch:
                    self._next = batch[-1].metadata.sequence.stream + 1
                    deadline = loop.time() + _LAG
                elif loop.time() >= deadline:
                    raise Timeout(f"stream {stream} could be read up to {self._next - 1} of {last.sequence}")
                else:
                    await asyncio.sleep(_LOOK)
        finally:
            await reader.delete()


def _id_of(message: JetStreamMsg) -> str:
    try:
        return message.headers.get("Nats-Msg-Id", "")
    except RemoteProtocolError:
        return ""  # It is none of ours.


def _prefix_of(msg_id: str) -> str:
    return msg_id[: msg_id.rfind("-") + 1]


def _is_behind(msg_id: str, offsets: dict[str, int]) -> bool:
    """Whether it is the id of a line that begins at one of these offsets, or after it."""
    prefix = _prefix_of(msg_id)
    offset = offsets.get(prefix)
    number = msg_id[len(prefix) :].partition("+")[0]
    return offset is not None and number.isdecimal() and len(number) < 20 and int(number) >= offset
