"""Events that JetStream publishes about itself: advisories and metrics, one class each.

`ADVISORIES` is the one table: the `type` on the wire, the class, and the subjects of the event.
Events that it does not know become a plain `Advisory`, with their fields in `extra`.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from jetspark.jetstream.model.base import Duration, Model, decode_object
from jetspark.jetstream.model.info import PeerInfo, StreamState

__all__ = [
    "ADVISORIES",
    "APIAudit",
    "APILimitReached",
    "Advisory",
    "AdvisoryKind",
    "BatchAbandoned",
    "ClientInfo",
    "ConsumerAction",
    "ConsumerGroupPinned",
    "ConsumerGroupUnpinned",
    "ConsumerLeaderElected",
    "ConsumerPaused",
    "ConsumerQuorumLost",
    "DomainLeaderElected",
    "MaxDeliveries",
    "MessageAcked",
    "MessageNaked",
    "MessageTerminated",
    "MetaRescue",
    "RestoreComplete",
    "RestoreCreate",
    "ServerOutOfSpace",
    "ServerRemoved",
    "SnapshotComplete",
    "SnapshotCreate",
    "StreamAction",
    "StreamLeaderElected",
    "StreamQuorumLost",
    "parse_advisory",
]


class ClientInfo(Model, frozen=True, kw_only=True):
    """The client whose request an event is about."""

    #: When it connected.
    start: datetime | None = None
    #: Its address.
    host: str | None = None
    #: Its number on the server.
    id: int | None = None
    #: Its account.
    acc: str | None = None
    #: The account whose service it used.
    svc: str | None = None
    #: Its user.
    user: str | None = None
    #: The name that it gave.
    name: str | None = None
    #: Language of its library.
    lang: str | None = None
    #: Version of its library.
    ver: str | None = None
    #: Its round-trip time in seconds.
    rtt: Duration | None = None
    #: Server that it is connected to.
    server: str | None = None
    #: Cluster of that server.
    cluster: str | None = None
    #: When it disconnected.
    stop: datetime | None = None
    #: Its kind: `Client`, `Leafnode`, ...
    kind: str | None = None
    #: Its protocol: `nats`, `mqtt`, `websocket`.
    client_type: str | None = None


class Advisory(Model, frozen=True, kw_only=True):
    """An event of JetStream. One that jetspark does not know has only these fields and `extra`."""

    #: The type of the event: `io.nats.jetstream.advisory.v1.max_deliver`.
    type: str = ""
    #: Unique id of this event.
    id: str = ""
    #: When it happened.
    timestamp: datetime | None = None
    #: Domain of the server.
    domain: str | None = None
    #: The account, in events for operators.
    account: str | None = None

    @property
    def kind(self) -> str:
        """The short name of the type: `max_deliver`."""
        return self.type.rpartition(".")[2]


class _StreamEvent(Advisory, frozen=True, kw_only=True):
    #: Name of the stream.
    stream: str = ""


class _ConsumerEvent(_StreamEvent, frozen=True, kw_only=True):
    #: Name of the consumer.
    consumer: str = ""


class _MessageEvent(_ConsumerEvent, frozen=True, kw_only=True):
    #: Sequence of the message in the stream.
    stream_seq: int = 0
    #: How often it was delivered.
    deliveries: int = 0


class MaxDeliveries(_MessageEvent, frozen=True, kw_only=True):
    """A message was delivered `max_deliver` times and never acknowledged: a dead letter."""


class _AckEvent(_MessageEvent, frozen=True, kw_only=True):
    #: Which delivery of the consumer it was.
    consumer_seq: int = 0


class MessageNaked(_AckEvent, frozen=True, kw_only=True):
    """A client sent a message back."""


class MessageTerminated(_AckEvent, frozen=True, kw_only=True):
    """A client terminated a message, or the stream deleted it unacknowledged: a dead letter."""

    #: Why, if the client said so.
    reason: str | None = None


class MessageAcked(_AckEvent, frozen=True, kw_only=True):
    """A metric: how long a client took to acknowledge. As often as `sample_freq` says."""

    #: Seconds from delivery to acknowledgement.
    ack_time: Duration = 0.0


class ConsumerAction(_ConsumerEvent, frozen=True, kw_only=True):
    """A consumer was created or deleted."""

    #: `create` or `delete`.
    action: str = ""


class ConsumerPaused(_ConsumerEvent, frozen=True, kw_only=True):
    """A consumer was paused or resumed. Server 2.11."""

    #: Whether it is paused now.
    paused: bool = False
    #: Until when.
    pause_until: datetime | None = None


class ConsumerGroupPinned(_ConsumerEvent, frozen=True, kw_only=True):
    """Another client is pinned in a priority group. Server 2.11."""

    #: Name of the group.
    group: str = ""
    #: Id of the client.
    pinned_id: str = ""


class ConsumerGroupUnpinned(_ConsumerEvent, frozen=True, kw_only=True):
    """The pinned client of a priority group lost its place. Server 2.11."""

    #: Name of the group.
    group: str = ""
    #: `admin` or `timeout`.
    reason: str = ""


class ConsumerLeaderElected(_ConsumerEvent, frozen=True, kw_only=True):
    """Another server leads a consumer."""

    #: Name of the server.
    leader: str = ""
    #: The servers that hold its state.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)


class ConsumerQuorumLost(_ConsumerEvent, frozen=True, kw_only=True):
    """Too many servers of a consumer are offline: it has no quorum."""

    #: The servers that hold its state.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)


class StreamAction(_StreamEvent, frozen=True, kw_only=True):
    """A stream was created, updated or deleted."""

    #: `create`, `modify` or `delete`.
    action: str = ""


class StreamLeaderElected(_StreamEvent, frozen=True, kw_only=True):
    """Another server leads a stream."""

    #: Name of the server.
    leader: str = ""
    #: The servers that hold a copy.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)


class StreamQuorumLost(_StreamEvent, frozen=True, kw_only=True):
    """Too many servers of a stream are offline: it has no quorum."""

    #: The servers that hold a copy.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)


class BatchAbandoned(_StreamEvent, frozen=True, kw_only=True):
    """An atomic batch was given up, and nothing of it was stored. Server 2.12."""

    #: Id of the batch.
    batch: str = ""
    #: `timeout`, `large`, `incomplete` or `unsupported`.
    reason: str = ""


class SnapshotCreate(_StreamEvent, frozen=True, kw_only=True):
    """A backup of a stream has begun."""

    #: The state of the stream.
    state: StreamState = msgspec.field(default_factory=StreamState)
    #: The client that makes it.
    client: ClientInfo | None = None


class SnapshotComplete(_StreamEvent, frozen=True, kw_only=True):
    """A backup of a stream has ended."""

    #: When it began.
    start: datetime | None = None
    #: When it ended.
    end: datetime | None = None
    #: The client that made it.
    client: ClientInfo | None = None
    #: Why it failed, if it did. Server 2.15.
    error: str | None = None


class RestoreCreate(_StreamEvent, frozen=True, kw_only=True):
    """A stream is being restored."""

    #: The client that restores it.
    client: ClientInfo | None = None


class RestoreComplete(_StreamEvent, frozen=True, kw_only=True):
    """A stream was restored."""

    #: When it began.
    start: datetime | None = None
    #: When it ended.
    end: datetime | None = None
    #: How much was read.
    bytes: int = 0
    #: The client that restored it.
    client: ClientInfo | None = None


class APIAudit(Advisory, frozen=True, kw_only=True):
    """A client used the JetStream API."""

    #: Name of the server.
    server: str = ""
    #: The client.
    client: ClientInfo | None = None
    #: Subject of the request.
    subject: str = ""
    #: The request.
    request: str | None = None
    #: The answer.
    response: str = ""


class APILimitReached(Advisory, frozen=True, kw_only=True):
    """A server had more API requests than it can queue, and dropped them. Server 2.11."""

    #: Name of the server.
    server: str = ""
    #: Number of requests that it dropped.
    dropped: int = 0


class DomainLeaderElected(Advisory, frozen=True, kw_only=True):
    """Another server leads all of JetStream."""

    #: Name of the server.
    leader: str = ""
    #: The other servers.
    replicas: list[PeerInfo] = msgspec.field(default_factory=list)
    #: Name of the cluster.
    cluster: str = ""


class _ServerEvent(Advisory, frozen=True, kw_only=True):
    #: Name of the server.
    server: str = ""
    #: Id of the server.
    server_id: str = ""
    #: Name of the cluster.
    cluster: str = ""


class ServerOutOfSpace(_ServerEvent, frozen=True, kw_only=True):
    """A server has no space left, and has switched JetStream off."""

    #: The stream that could not be written.
    stream: str | None = None


class ServerRemoved(_ServerEvent, frozen=True, kw_only=True):
    """A server was removed from the cluster."""


class MetaRescue(_ServerEvent, frozen=True, kw_only=True):
    """An operator lowered by force how many servers must agree. Server 2.15."""

    #: How many there were.
    prev_quorum: int = 0
    #: How many there are.
    new_quorum: int = 0


class AdvisoryKind(NamedTuple):
    """An entry of `ADVISORIES`."""

    #: `type` on the wire.
    wire_type: str
    #: The class of such an event.
    event: type[Advisory]
    #: Its subjects, with `{stream}` and `{consumer}` for the names.
    patterns: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The short name: the last word of the type."""
        return self.wire_type.rpartition(".")[2]

    def subjects(self, stream: str = "*", consumer: str = "*") -> list[str]:
        """The subjects to subscribe to, for one stream and consumer or for all."""
        return [pattern.format(stream=stream, consumer=consumer) for pattern in self.patterns]


# Short name, class, subjects; the first token of a subject is also part of the type.
_ROWS: tuple[tuple[str, type[Advisory], str], ...] = (
    ("max_deliver", MaxDeliveries, "ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{consumer}"),
    ("nak", MessageNaked, "ADVISORY.CONSUMER.MSG_NAKED.{stream}.{consumer}"),
    ("terminated", MessageTerminated, "ADVISORY.CONSUMER.MSG_TERMINATED.{stream}.{consumer}"),
    (
        "consumer_action",
        ConsumerAction,
        "ADVISORY.CONSUMER.CREATED.{stream}.{consumer} ADVISORY.CONSUMER.DELETED.{stream}.{consumer}",
    ),
    ("consumer_pause", ConsumerPaused, "ADVISORY.CONSUMER.PAUSE.{stream}.{consumer}"),
    ("consumer_group_pinned", ConsumerGroupPinned, "ADVISORY.CONSUMER.PINNED.{stream}.{consumer}"),
    ("consumer_group_unpinned", ConsumerGroupUnpinned, "ADVISORY.CONSUMER.UNPINNED.{stream}.{consumer}"),
    (
        "consumer_leader_elected",
        ConsumerLeaderElected,
        "ADVISORY.CONSUMER.LEADER_ELECTED.{stream}.{consumer}",
    ),
    ("consumer_quorum_lost", ConsumerQuorumLost, "ADVISORY.CONSUMER.QUORUM_LOST.{stream}.{consumer}"),
    (
        "stream_action",
        StreamAction,
        "ADVISORY.STREAM.CREATED.{stream} ADVISORY.STREAM.UPDATED.{stream} ADVISORY.STREAM.DELETED.{stream}",
    ),
    ("stream_leader_elected", StreamLeaderElected, "ADVISORY.STREAM.LEADER_ELECTED.{stream}"),
    ("stream_quorum_lost", StreamQuorumLost, "ADVISORY.STREAM.QUORUM_LOST.{stream}"),
    ("stream_batch_abandoned", BatchAbandoned, "ADVISORY.STREAM.BATCH_ABANDONED.{stream}"),
    ("snapshot_create", SnapshotCreate, "ADVISORY.STREAM.SNAPSHOT_CREATE.{stream}"),
    ("snapshot_complete", SnapshotComplete, "ADVISORY.STREAM.SNAPSHOT_COMPLETE.{stream}"),
    ("restore_create", RestoreCreate, "ADVISORY.STREAM.RESTORE_CREATE.{stream}"),
    ("restore_complete", RestoreComplete, "ADVISORY.STREAM.RESTORE_COMPLETE.{stream}"),
    ("api_audit", APIAudit, "ADVISORY.API"),
    ("api_limit_reached", APILimitReached, "ADVISORY.API.LIMIT_REACHED"),
    ("domain_leader_elected", DomainLeaderElected, "ADVISORY.DOMAIN.LEADER_ELECTED"),
    ("server_out_of_space", ServerOutOfSpace, "ADVISORY.SERVER.OUT_OF_STORAGE"),
    ("server_removed", ServerRemoved, "ADVISORY.SERVER.REMOVED"),
    ("meta_rescue", MetaRescue, "ADVISORY.SERVER.META_RESCUE"),
    ("consumer_ack", MessageAcked, "METRIC.CONSUMER.ACK.{stream}.{consumer}"),
)

#: Every event of nats-server 2.15, by its short name.
ADVISORIES: dict[str, AdvisoryKind] = {
    kind: AdvisoryKind(
        f"io.nats.jetstream.{patterns.partition('.')[0].lower()}.v1.{kind}",
        event,
        tuple(f"$JS.EVENT.{pattern}" for pattern in patterns.split()),
    )
    for kind, event, patterns in _ROWS
}

_CLASSES = {row.wire_type: row.event for row in ADVISORIES.values()}


def parse_advisory(data: bytes) -> Advisory:
    """The event in the payload of an advisory or metric. Raises `RemoteProtocolError` if it cannot be one."""
    wire = decode_object(data)
    kind = wire.get("type")
    event = _CLASSES.get(kind, Advisory) if isinstance(kind, str) else Advisory
    return event.from_wire(wire)
