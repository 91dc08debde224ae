"""Bodies of JetStream API requests, and the small answers: everything that is neither config nor info.

Field names are the server's, except where a longer name is clearer: `PubAck.sequence` is `seq` on
the wire. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec

from jetspark.errors import Error, RemoteProtocolError
from jetspark.jetstream.model.base import Duration, Model, UInt, decode_object
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo, api_error
from jetspark.jetstream.model.stream import Placement

__all__ = [
    "ConsumerCreateRequest",
    "MsgDeleteRequest",
    "MsgGetRequest",
    "PauseRequest",
    "PauseResponse",
    "PubAck",
    "PullRequest",
    "PurgeRequest",
    "PurgeResponse",
    "ResetRequest",
    "ResetResponse",
    "RestoreRequest",
    "SnapshotRequest",
    "StepdownRequest",
    "StoredMsg",
    "StreamInfoRequest",
    "StreamListRequest",
    "UnpinRequest",
    "is_from_stream",
    "parse_pub_ack",
    "parse_stored",
]

_TYPE = frozenset({"type"})


class PubAck(Model, frozen=True, kw_only=True):
    """The stream has stored the message; with `duplicate`, it had stored it before.

    It does not say that the message is on disk; that depends on the server's `sync_interval`.
    """

    #: Name of the stream.
    stream: str
    #: Sequence of the message in it.
    sequence: int = msgspec.field(name="seq")
    #: Domain of the server.
    domain: str | None = None
    #: Whether its `Nats-Msg-Id` was seen before; `sequence` is then that of the first.
    duplicate: bool = False
    #: Value of the counter, in a stream with `allow_msg_counter`. Server 2.12.
    value: str | None = msgspec.field(name="val", default=None)
    #: Id of the batch that it committed. Server 2.12.
    batch_id: str | None = msgspec.field(name="batch", default=None)
    #: Number of messages in that batch. Server 2.12.
    batch_size: int | None = msgspec.field(name="count", default=None)

    def __post_init__(self) -> None:
        """Nothing to check, and acknowledgements arrive by the hundred thousand."""


_PUB_ACK = msgspec.json.Decoder(PubAck)


def parse_pub_ack(data: bytes) -> PubAck:
    """The acknowledgement in the answer to a publish. Fields that a newer server adds are dropped.

    Raises `APIError` if the stream refused the message, `RemoteProtocolError` if no stream sent this: any
    client that subscribes to the subject may answer too. A stream always gives its name.
    """
    try:
        ack = _PUB_ACK.decode(data)
    except Exception:  # As in `decode_json`, which looks at the other answers.
        ack = None
    if ack is not None and ack.stream and ack.sequence > 0:
        return ack  # Sequences begin with 1: a refusal has 0 or none.
    wire = decode_object(data)
    stream = wire.get("stream")
    if stream and isinstance(stream, str) and "error" in wire:
        raise api_error(wire["error"], stream=stream)
    raise RemoteProtocolError(f"not a publish acknowledgement: {data[:80]!r}")


def is_from_stream(data: bytes) -> bool:
    """Whether a stream sent this answer to a publish, as an acknowledgement or as a refusal."""
    try:
        parse_pub_ack(data)
    except RemoteProtocolError:
        return False
    except Error:
        pass
    return True


class PullRequest(Model, frozen=True, kw_only=True):
    """Asks a pull consumer for messages."""

    #: Most messages; 1 if omitted.
    batch: UInt | None = None
    #: Seconds that the request waits for messages.
    expires: Duration | None = None
    #: Answer at once when there is nothing; with `expires`, wait only for the first message.
    no_wait: bool = False
    #: Most bytes: subject, reply, headers and payload.
    max_bytes: UInt | None = None
    #: Seconds of silence after which the server sends a heartbeat; at most half of `expires`.
    idle_heartbeat: Duration | None = None
    #: Wait until so many messages are pending. Policy overflow, server 2.11.
    min_pending: UInt | None = None
    #: Wait until so many messages are delivered and not acknowledged. Policy overflow, server 2.11.
    min_ack_pending: UInt | None = None
    #: Id of a pinned client, from `Nats-Pin-Id`. Policy pinned_client, server 2.11.
    id: str | None = None
    #: Priority group. Server 2.11.
    group: str | None = None
    #: 0 is served first, 9 last. Policy prioritized, server 2.12.
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None

    def check(self) -> None:
        for field in ("expires", "idle_heartbeat"):
            if (getattr(self, field) or 0) < 0:
                self._refuse(field, "is negative")
        if self.idle_heartbeat and 2 * self.idle_heartbeat > (self.expires or 0):
            self._refuse("idle_heartbeat", f"is longer than half of expires={self.expires!r}")


class ConsumerCreateRequest(Model, frozen=True, kw_only=True):
    """Creates or updates a consumer."""

    #: Name of the stream.
    stream_name: str
    #: Its configuration.
    config: ConsumerConfig
    #: `create`, `update`, or empty for either. Server 2.10.
    action: str = ""
    #: Refuse settings that the server would correct silently. Server 2.11.
    pedantic: bool = False


class StreamInfoRequest(Model, frozen=True, kw_only=True):
    """Asks for a stream, with details that are costly."""

    #: List the sequences that are deleted.
    deleted_details: bool = False
    #: Count the messages of each subject that matches.
    subjects_filter: str | None = None
    #: First of the subjects to list: answers hold at most 100,000.
    offset: UInt = 0


class StreamListRequest(Model, frozen=True, kw_only=True):
    """Asks for one page of streams or their names."""

    #: Only streams that store this subject.
    subject: str | None = None
    #: First of the page.
    offset: UInt = 0


class SnapshotRequest(Model, frozen=True, kw_only=True):
    """Asks for a backup of a stream."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"no_consumers", "jsck"})

    #: Where the parts of the archive go.
    deliver_subject: str
    #: Leave the consumers out.
    no_consumers: bool = False
    #: Bytes of a part.
    chunk_size: UInt = 0
    #: Check the store first.
    jsck: bool = False


class RestoreRequest(Model, frozen=True, kw_only=True):
    """Asks to restore a stream, with the configuration and state of its backup as the server wrote them."""

    #: The configuration of the stream.
    config: dict[str, Any]
    #: The state of the stream.
    state: dict[str, Any]


class PurgeRequest(Model, frozen=True, kw_only=True):
    """Deletes messages of a stream; all of them if nothing is set."""

    #: Only messages before this sequence.
    sequence: UInt | None = msgspec.field(name="seq", default=None)
    #: Only messages that match.
    subject: str | None = msgspec.field(name="filter", default=None)
    #: Keep so many of the last ones.
    keep: UInt | None = None

    def check(self) -> None:
        if self.sequence and self.keep:
            self._refuse("keep", f"excludes sequence={self.sequence!r}: give one of them")


class PurgeResponse(Model, frozen=True, kw_only=True):
    """The result of a purge."""

    _envelope: ClassVar[frozenset[str]] = _TYPE

    #: Whether it was done.
    success: bool = False
    #: Number of messages deleted.
    purged: int = 0


class MsgGetRequest(Model, frozen=True, kw_only=True):
    """Asks for a stored message; or for many, on the subject of direct gets."""

    _levels: ClassVar[Mapping[str, int]] = {
        "batch": 1,
        "max_bytes": 1,
        "start_time": 1,
        "multi_last": 1,
        "up_to_seq": 1,
        "up_to_time": 1,
        "no_hdr": 2,
    }

    #: Sequence of the message, or with `next_by_subj` and `batch` the first to look at.
    seq: UInt | None = None
    #: The last message of this subject.
    last_by_subj: str | None = None
    #: The first message that matches, from `seq` on.
    next_by_subj: str | None = None
    #: Direct only: so many messages. Server 2.11.
    batch: UInt | None = None
    #: Direct only: stop after so many bytes. Server 2.11.
    max_bytes: UInt | None = None
    #: Direct only: from this time on, instead of `seq`. Server 2.11.
    start_time: datetime | None = None
    #: Direct only: the last message of each subject that matches. Server 2.11.
    multi_last: list[str] = msgspec.field(default_factory=list)
    #: With `multi_last`: as it was at this sequence. Server 2.11.
    up_to_seq: UInt | None = None
    #: With `multi_last`: as it was at this time. Server 2.11.
    up_to_time: datetime | None = None
    #: Leave the headers out. Server 2.12.
    no_hdr: bool = False


class StoredMsg(Model, frozen=True, kw_only=True):
    """A message as the stream holds it."""

    #: Its subject.
    subject: str
    #: Its sequence.
    sequence: int = msgspec.field(name="seq")
    #: Its header block as on the wire; empty when there is none.
    hdrs: bytes = b""
    #: Its payload.
    data: bytes = b""
    #: When it was stored.
    time: datetime


def parse_stored(answer: dict[str, Any]) -> StoredMsg:
    """The message in an answer to `STREAM.MSG.GET`. Raises `RemoteProtocolError`."""
    return StoredMsg.from_wire(answer.get("message"))


class MsgDeleteRequest(Model, frozen=True, kw_only=True):
    """Deletes a message."""

    #: Its sequence.
    seq: UInt
    #: Do not overwrite it with random bytes: faster.
    no_erase: bool = False


class PauseRequest(Model, frozen=True, kw_only=True):
    """Pauses or resumes a consumer. Server 2.11."""

    #: Until when; `None` resumes it.
    pause_until: datetime | None = None


class PauseResponse(Model, frozen=True, kw_only=True):
    """Whether a consumer is paused. Server 2.11."""

    _envelope: ClassVar[frozenset[str]] = _TYPE

    #: Whether it is paused.
    paused: bool = False
    #: Until when.
    pause_until: datetime | None = None
    #: Seconds until then.
    pause_remaining: Duration | None = None


class ResetRequest(Model, frozen=True, kw_only=True):
    """Sets a consumer back to a sequence. Server 2.14."""

    #: Next sequence to deliver; `None` for the one after the acknowledgement floor.
    seq: UInt | None = None


class ResetResponse(ConsumerInfo, frozen=True, kw_only=True):
    """The consumer after a reset. Server 2.14."""

    #: Next sequence that it delivers.
    reset_seq: int = 0


class UnpinRequest(Model, frozen=True, kw_only=True):
    """Takes the pin from the pinned client of a priority group. Server 2.11."""

    #: Name of the group.
    group: str


class StepdownRequest(Model, frozen=True, kw_only=True):
    """Makes the leader of a stream or consumer step down."""

    #: The server that should lead next. Server 2.11.
    placement: Placement | None = None
