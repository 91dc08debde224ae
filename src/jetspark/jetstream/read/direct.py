"""Reading stored messages: by direct get from any replica, or through the leader; one message or batches.

A direct get answers with the message itself and adds headers about it (ADR-31). A batch is many such answers
and `204 EOB`. Both are repeated when the connection breaks, and when no answer comes: the replica that was
chosen may be down. A batch continues after the last message that arrived.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from jetspark.errors import (
    APIError,
    ConnectionLost,
    JetStreamUnavailable,
    NoResponders,
    RemoteProtocolError,
    StatusError,
    Timeout,
    UsageError,
)
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API
from jetspark.jetstream.inbox import Inbox
from jetspark.jetstream.message.status import OnDirectGet, Status, classify, is_status
from jetspark.jetstream.message.stored import (
    StoredMessage,
    from_answer,
    from_frame,
    is_stored,
    not_direct_get,
)
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import MsgGetRequest, parse_stored
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.retry import Backoff, attempt_within
from jetspark.wire import MsgFrame
from jetspark.wire.headers import Headers
from jetspark.wire.subjects import check_filter, has_wildcard

__all__ = ["batches", "get"]

#: The size of one request of a batch: enough to keep the connection busy, and to fit into memory.
_BATCH: Final = 5000
_BATCH_BYTES: Final = 8 * 1024 * 1024


async def get(api: API, config: StreamConfig, request: MsgGetRequest) -> StoredMessage:
    """One message. Raises `MessageNotFound`, and what `API.call` raises.

    While the stream has no leader it asks again, for the timeout of the API.
    """
    backoff = Backoff(api.timeout)
    # A mirror with `mirror_direct` alone answers for its origin, and not under its own name (ADR-31).
    if config.allow_direct and not request.no_hdr:
        try:
            return await _get_direct(api, config.name, request, backoff)
        except NoResponders:
            pass  # Direct gets are no longer allowed, or no replica is up: ask the leader.
    while True:
        try:
            answer = await api.call(endpoints.MSG_GET, request, stream=config.name, timeout=backoff.left)
        except JetStreamUnavailable:  # The leader has just been replaced.
            if not await backoff.pause():
                raise
        else:
            return from_answer(config.name, parse_stored(answer))


async def _get_direct(api: API, stream: str, request: MsgGetRequest, backoff: Backoff) -> StoredMessage:
    subject, payload = api.subject(endpoints.DIRECT_GET, stream=stream), request.to_json()
    last = request.last_by_subj
    if last is not None:
        check_filter(last)
        if not has_wildcard(last):
            # With the subject of the message in the subject of the request, permissions can be given by it.
            subject = api.subject(endpoints.DIRECT_GET_LAST, stream=stream, subject=last)
            payload = b""
    while True:
        try:
            wait = min(attempt_within(api.timeout, api.timing.silence), backoff.left)
            frame = (await api.connection.request_block(subject, payload, b"", timeout=wait))._frame
        except ConnectionLost:
            continue  # At once: the next request waits until the connection is back.
        except Timeout as error:
            if backoff.left <= 0:
                raise _no_answer(subject, api.timeout) from error
            continue
        if _is_status(frame):
            raise _status_error(classify(frame.header), stream)
        return from_frame(frame)


async def batches(api: API, stream: str, request: MsgGetRequest) -> AsyncGenerator[list[MsgFrame], None]:
    """Messages as they arrive: one list per read, in order and without gaps; see `stored.from_frame`.

    `batch` and `max_bytes` limit the whole, not a single request to the server; without them reading
    continues to the end of the stream. Raises `StreamNotFound`, `StatusError`, `UsageError` when the stream
    does not allow direct gets, and `Timeout` when nothing arrives for the timeout of the API.
    """
    subject = api.subject(endpoints.DIRECT_GET, stream=stream)
    reader = _BatchReader(request)
    backoff = Backoff(api.timeout)
    attempt = attempt_within(api.timeout, api.timing.silence)
    with Inbox(api.connection) as inbox:
        while not reader.over:
            inbox.ask(subject, reader.next_request().to_json())
            while reader.answering:
                try:
                    frames = await inbox.take(min(attempt, backoff.left))
                except (ConnectionLost, Timeout) as error:
                    if backoff.left <= 0:
                        raise _no_answer(subject, api.timeout) from error
                    break
                except NoResponders:
                    await _raise_if_not_allowed(api, stream, backoff.left)
                    if not await backoff.pause():
                        raise _no_answer(subject, api.timeout) from None
                    break
                if accepted := reader.accept(frames, stream):
                    backoff.renew()
                    yield accepted
                    backoff.renew()


class _BatchHeaders(NamedTuple):
    """The place of a message in its batch."""

    sequence: int
    #: Messages still to come, this one not counted.
    pending: int
    #: Sequence of the message before it in the same answer; 0 for the first.
    previous: int


class _BatchReader:
    """The state of a batch: the next request, and whether messages follow without a gap."""

    def __init__(self, request: MsgGetRequest) -> None:
        self._request = request
        self._count = request.batch
        self._bytes = request.max_bytes
        self._last = 0
        self._previous = 0
        self._held: list[MsgFrame] = []
        #: Whether an answer is in flight.
        self.answering = False
        #: Whether the batch is complete.
        self.over = False

    def next_request(self) -> MsgGetRequest:
        """Begin a request for the messages after the last one."""
        self.answering = True
        self._previous = 0
        self._held = []
        changes: dict[str, object] = {
            "batch": _BATCH if self._count is None else min(self._count, _BATCH),
            "max_bytes": _BATCH_BYTES if self._bytes is None else min(self._bytes, _BATCH_BYTES),
        }
        if self._last:
            changes |= {"seq": self._last + 1, "start_time": None}
        return self._request.replace(**changes)

    def accept(self, frames: list[MsgFrame], stream: str) -> list[MsgFrame]:
        """The messages of one read that follow without a gap. Raises `StatusError`, `UsageError`."""
        status = frames.pop() if _is_status(frames[-1]) else None
        if frames:
            frames = self._follow(frames)
        if self._request.multi_last and self.answering:
            # Held until complete: in a second answer other messages may be the last of their subject.
            self._held += frames
            if status is None:
                return []
            frames = self._held
        if status is not None and self.answering:
            self._end(status, stream)
        self._count_out(frames)
        return frames

    def _follow(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        first, last = _position(frames[0]), _position(frames[-1])
        if first.sequence <= self._last:
            raise RemoteProtocolError(f"the server repeats sequence {first.sequence} of a batch")
        if first.previous != self._previous or first.pending - last.pending != len(frames) - 1:
            # A gap, or the server counted again because messages were stored meanwhile: check each.
            frames = self._up_to_the_gap(frames)
            if not frames:
                return frames
            last = _position(frames[-1])
        self._previous = last.sequence
        return frames

    def _up_to_the_gap(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        previous = self._previous
        for index, frame in enumerate(frames):
            position = _position(frame)
            if position.previous != previous:
                self.answering = False
                return frames[:index]
            previous = position.sequence
        return frames

    def _end(self, status: MsgFrame, stream: str) -> None:
        meaning = classify(status.header)
        self.answering = False
        if meaning.on_direct_get is OnDirectGet.NOT_FOUND:
            self.over = True
        elif meaning.on_direct_get is OnDirectGet.ERROR:
            raise _status_error(meaning, stream)
        else:
            headers = Headers.parse(status.header)
            # Without a single message there is no progress: repeated requests would not end.
            self.over = headers.get("Nats-Num-Pending", "0") == "0" or not self._previous
            if up_to := headers.get("Nats-UpTo-Sequence"):
                self._request = self._request.replace(up_to_seq=_number(up_to, status), up_to_time=None)

    def _count_out(self, frames: list[MsgFrame]) -> None:
        if not frames:
            return
        self._last = _position(frames[-1]).sequence
        if self._count is not None:
            self._count -= len(frames)
        if self._bytes is not None:
            self._bytes -= sum(len(frame.header) + len(frame.data) for frame in frames)
        if (self._count is not None and self._count <= 0) or (self._bytes is not None and self._bytes <= 0):
            self.over = True
            self.answering = False


def _is_status(frame: MsgFrame) -> bool:
    """Whether the server itself answers: any client may have stored a message with a status line."""
    return is_status(frame) and not is_stored(frame.header)


def _position(frame: MsgFrame) -> _BatchHeaders:
    headers = Headers.parse(frame.header)
    try:
        # The last value of each: the message itself may have headers of these names.
        return _BatchHeaders(
            *(
                _number(headers.get_all(name)[-1], frame)
                for name in ("Nats-Sequence", "Nats-Num-Pending", "Nats-Last-Sequence")
            )
        )
    except IndexError:
        if "Nats-Sequence" in headers:
            raise UsageError(
                "the server does not support batches of direct gets",
                hint="Requires nats-server 2.11 or later",
            ) from None
        raise not_direct_get(frame.header) from None


def _number(text: str, frame: MsgFrame) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise not_direct_get(frame.header)
    return int(text)


def _status_error(status: Status, stream: str) -> APIError | StatusError:
    if status.on_direct_get is OnDirectGet.NOT_FOUND:
        # The same error that the leader answers with.
        error = {"code": 404, "err_code": 10037, "description": "no message found"}
        return APIError.from_wire(error, stream=stream)
    return StatusError(
        f"stream {stream}: {status.code} {status.description}",
        status=status.code,
        description=status.description,
        hint=status.error.hint,
    )


async def _raise_if_not_allowed(api: API, stream: str, timeout: float) -> None:
    """Raise the reason why no replica answers direct gets, unless it may pass."""
    info = StreamInfo.from_wire(await api.call(endpoints.STREAM_INFO, stream=stream, timeout=timeout))
    if not info.config.allow_direct:
        raise UsageError(
            f"stream {stream} does not allow direct gets", hint="Update it with allow_direct=True"
        )


def _no_answer(subject: str, seconds: float) -> Timeout:
    return Timeout(
        f"nothing arrived on {subject!r} for {seconds} s",
        hint="Check the connection, the permissions, and whether the cluster has a leader",
    )
