"""The server's answers about streams, consumers and accounts. Read, never constructed by users.

Field names are the server's. Times are UTC, durations seconds. A field is `None` when the server left it
out, or keeps its zero or empty default.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, NamedTuple

import msgspec

from jetspark.errors import APIError
from jetspark.jetstream.model.base import Duration, Model
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.stream import (
    ExternalStream,
    Placement,
    RetentionPolicy,
    StreamConfig,
    SubjectTransform,
)

__all__ = [
    "APIStats",
    "AccountInfo",
    "AccountLimits",
    "ClusterInfo",
    "ConsumerInfo",
    "DesiredClusterInfo",
    "DesiredOrigin",
    "DesiredPeer",
    "DesiredStatus",
    "ErrorInfo",
    "LostData",
    "PeerInfo",
    "PriorityGroupState",
    "SequenceInfo",
    "StreamAlternate",
    "StreamInfo",
    "StreamSourceInfo",
    "StreamState",
    "Tier",
    "Usage",
    "api_error",
]

_ANSWER = frozenset({"type", "total", "offset", "limit"})


class ErrorInfo(Model, frozen=True, kw_only=True):
    """An error that the server reports as part of something else."""

    #: Like an HTTP status.
    code: int
    #: The server's number of the error.
    err_code: int = 0
    #: In words.
    description: str = ""


def api_error(error: object, *, stream: str | None = None, consumer: str | None = None) -> APIError:
    """The exception for the `error` of an answer, with the names in the request.

    Raises `RemoteProtocolError` if it is not the error of a server.
    """
    return APIError.from_wire(ErrorInfo.from_wire(error).to_wire(), stream=stream, consumer=consumer)


class LostData(Model, frozen=True, kw_only=True):
    """Messages that a damaged store could not recover."""

    #: Their sequences.
    msgs: list[int] = msgspec.field(default_factory=list)
    #: Their size together.
    bytes: int = 0


class StreamState(Model, frozen=True, kw_only=True):
    """The contents of a stream."""

    #: Number of messages.
    messages: int = 0
    #: Their size together.
    bytes: int = 0
    #: Sequence of the first message; of the next one to come, when the stream is empty.
    first_seq: int = 0
    #: When the first message was stored; `None` when there is none.
    first_ts: datetime | None = None
    #: Sequence of the last message that was stored, also when it is deleted by now.
    last_seq: int = 0
    #: When that was; `None` when there was none.
    last_ts: datetime | None = None
    #: Number of subjects.
    num_subjects: int = 0
    #: Messages by subject, if they were asked for with a filter.
    subjects: dict[str, int] = msgspec.field(default_factory=dict)
    #: Number of messages that are missing between first and last.
    num_deleted: int = 0
    #: Their sequences, if they were asked for.
    deleted: list[int] = msgspec.field(default_factory=list)
    #: The messages that a damaged store lost.
    lost: LostData | None = None
    #: Number of consumers.
    consumer_count: int = 0


class PeerInfo(Model, frozen=True, kw_only=True):
    """A server that holds a copy."""

    #: Name of the server.
    name: str = ""
    #: Whether it has caught up with the leader.
    current: bool = False
    #: Whether it is offline.
    offline: bool = False
    #: Seconds since its last contact with the leader.
    active: Duration = 0.0
    #: Operations that it lacks.
    lag: int = 0
    #: Its id in the Raft group.
    peer: str = ""
    #: Whether it is still joining. Server 2.15.
    pending: bool = False


class DesiredPeer(Model, frozen=True, kw_only=True):
    """A server that is to hold a copy. Server 2.15."""

    #: Name of the server.
    name: str = ""
    #: Whether it is offline.
    offline: bool = False
    #: Its id in the Raft group.
    peer: str = ""


class DesiredOrigin(Model, frozen=True, kw_only=True):
    """A stream or consumer before a move or change of replicas. Server 2.15."""

    #: Number of copies.
    replicas: int = 0
    #: Which servers could host it.
    placement: Placement | None = None
    #: Retention of the stream.
    retention: RetentionPolicy | str | None = None


class DesiredStatus(Model, frozen=True, kw_only=True):
    """How far a move or change of replicas has come. Server 2.15."""

    #: In words.
    description: str = ""
    #: In one word.
    type: str = ""
    #: The obstacles.
    err: str | None = None


class DesiredClusterInfo(Model, frozen=True, kw_only=True):
    """The move of a stream or consumer. Server 2.15."""

    #: Since when.
    created: datetime | None = None
    #: Name of the cluster.
    name: str | None = None
    #: The servers chosen.
    replicas: list[DesiredPeer] = msgspec.field(default_factory=list)
    #: Where it comes from.
    origin: DesiredOrigin | None = None
    #: How far it has come.
    status: DesiredStatus | None = None


class ClusterInfo(Model, frozen=True, kw_only=True):
    """Which servers hold a stream or consumer."""

    #: Name of the cluster.
    name: str | None = None
    #: Name of the Raft group.
    raft_group: str | None = None
    #: Name of the leading server; `None` while there is none.
    leader: str | None = None
    #: Since when it leads. Server 2.12.
    leader_since: datetime | None = None
    #: Whether replication goes over the system account. Server 2.12.
    system_account: bool = False
    #: The account that replication goes over. Server 2.12.
    traffic_account: str | None = None
    #: The other servers.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)
    #: Where it is on its way to, while it moves. Server 2.15.
    desired: DesiredClusterInfo | None = None


class StreamSourceInfo(Model, frozen=True, kw_only=True):
    """How far a mirror or source has come."""

    #: Name of the origin stream.
    name: str
    #: How it is reached.
    external: ExternalStream | None = None
    #: Messages still to be copied.
    lag: int = 0
    #: Sequence in the origin of the last message copied. Server 2.15.
    seq: int = 0
    #: Seconds since the last contact with the origin; negative without any.
    active: Duration = 0.0
    #: Its error.
    error: ErrorInfo | None = None
    #: Filter on its messages.
    filter_subject: str | None = None
    #: Filters and the subjects that matches are stored under. Server 2.10.
    subject_transforms: list[SubjectTransform] = msgspec.field(default_factory=list)


class StreamAlternate(Model, frozen=True, kw_only=True):
    """A stream with the same messages, nearest first."""

    #: Name of the stream.
    name: str
    #: Its domain.
    domain: str | None = None
    #: Its cluster.
    cluster: str = ""


class StreamInfo(Model, frozen=True, kw_only=True):
    """A stream: its configuration and its state."""

    _envelope: ClassVar[frozenset[str]] = _ANSWER

    #: Configuration, with the server's defaults filled in.
    config: StreamConfig
    #: When it was created.
    created: datetime
    #: Its contents.
    state: StreamState
    #: Domain of the server.
    domain: str | None = None
    #: Which servers hold it.
    cluster: ClusterInfo | None = None
    #: How far it mirrors its origin.
    mirror: StreamSourceInfo | None = None
    #: How far it has copied its sources.
    sources: list[StreamSourceInfo] = msgspec.field(default_factory=list)
    #: Mirrors of it, and itself, nearest first.
    alternates: list[StreamAlternate] = msgspec.field(default_factory=list)
    #: When this was gathered. Server 2.10.
    ts: datetime | None = None
    #: In the answer to a create: whether it did not exist before.
    did_create: bool = False


class SequenceInfo(Model, frozen=True, kw_only=True):
    """A position, in the numbering of the consumer and of the stream."""

    #: Deliveries, counted from 1 for this consumer.
    consumer_seq: int = 0
    #: Sequence in the stream.
    stream_seq: int = 0
    #: When it last moved.
    last_active: datetime | None = None


class PriorityGroupState(Model, frozen=True, kw_only=True):
    """The pinned client of a priority group. Server 2.11."""

    #: Name of the group.
    group: str
    #: Id of the pinned client.
    pinned_client_id: str | None = None
    #: Since when it is pinned.
    pinned_ts: datetime | None = None


class ConsumerInfo(Model, frozen=True, kw_only=True):
    """A consumer: its configuration and its progress."""

    _envelope: ClassVar[frozenset[str]] = _ANSWER

    #: Name of its stream.
    stream_name: str
    #: Its name.
    name: str
    #: When it was created.
    created: datetime
    #: Configuration, with the server's defaults filled in.
    config: ConsumerConfig
    #: The last delivery.
    delivered: SequenceInfo
    #: Everything up to here is acknowledged.
    ack_floor: SequenceInfo
    #: Messages that are delivered and not acknowledged.
    num_ack_pending: int = 0
    #: Messages that were delivered more than once and are not acknowledged.
    num_redelivered: int = 0
    #: Pull requests that wait.
    num_waiting: int = 0
    #: Messages that match and were never delivered.
    num_pending: int = 0
    #: Which servers hold it.
    cluster: ClusterInfo | None = None
    #: Whether a client is subscribed to the deliver subject.
    push_bound: bool = False
    #: Whether it is paused. Server 2.11.
    paused: bool = False
    #: Seconds until it resumes. Server 2.11.
    pause_remaining: Duration | None = None
    #: When this was gathered. Server 2.10.
    ts: datetime | None = None
    #: The pinned client of each priority group. Server 2.11.
    priority_groups: list[PriorityGroupState] = msgspec.field(default_factory=list)


class AccountLimits(Model, frozen=True, kw_only=True):
    """The limits of an account; -1 means no limit."""

    #: Bytes in memory.
    max_memory: int = -1
    #: Bytes in files.
    max_storage: int = -1
    #: Streams.
    max_streams: int = -1
    #: Consumers.
    max_consumers: int = -1
    #: Largest `max_ack_pending` of a consumer.
    max_ack_pending: int = -1
    #: Largest `max_bytes` of a stream in memory; 0 means no limit.
    memory_max_stream_bytes: int = -1
    #: Largest `max_bytes` of a stream in files; 0 means no limit.
    storage_max_stream_bytes: int = -1
    #: Whether every stream must set `max_bytes`.
    max_bytes_required: bool = False


class APIStats(Model, frozen=True, kw_only=True):
    """Requests to the JetStream API."""

    #: Level of the API that the server supports. Server 2.11.
    level: int = 0
    #: Requests so far.
    total: int = 0
    #: Requests that failed.
    errors: int = 0
    #: Requests in progress.
    inflight: int = 0


class Tier(Model, frozen=True, kw_only=True):
    """The usage and limits of an account, for streams of one number of replicas."""

    #: Bytes in memory.
    memory: int = 0
    #: Bytes in files.
    storage: int = 0
    #: Bytes in memory that streams have reserved with `max_bytes`.
    reserved_memory: int = 0
    #: Bytes in files that streams have reserved with `max_bytes`.
    reserved_storage: int = 0
    #: Streams.
    streams: int = 0
    #: Consumers.
    consumers: int = 0
    #: Its limits.
    limits: AccountLimits = msgspec.field(default_factory=AccountLimits)


class Usage(NamedTuple):
    """How much of one resource an account uses."""

    #: Name of the tier; empty in an account without tiers.
    tier: str
    #: `storage`, `memory`, `streams` or `consumers`.
    resource: str
    #: Bytes, or a number.
    used: int
    #: 0 or less means no limit.
    limit: int

    @property
    def share(self) -> float:
        """The used share of the limit; 0 without a limit."""
        return self.used / self.limit if self.limit > 0 else 0.0


class AccountInfo(Tier, frozen=True, kw_only=True):
    """The usage and limits of an account. With tiers, the sum of them, and limits only in `tiers`."""

    _envelope: ClassVar[frozenset[str]] = _ANSWER

    #: Domain of the server.
    domain: str | None = None
    #: Requests to the JetStream API.
    api: APIStats = msgspec.field(default_factory=APIStats)
    #: Use and limits by tier: `R1`, `R3`.
    tiers: dict[str, Tier] = msgspec.field(default_factory=dict)

    def usages(self) -> Iterator[Usage]:
        """The use of each resource, by tier if the account has tiers."""
        tiers: dict[str, Tier] = self.tiers or {"": self}
        for name, tier in tiers.items():
            limits = tier.limits
            yield Usage(name, "storage", tier.storage, limits.max_storage)
            yield Usage(name, "memory", tier.memory, limits.max_memory)
            yield Usage(name, "streams", tier.streams, limits.max_streams)
            yield Usage(name, "consumers", tier.consumers, limits.max_consumers)
