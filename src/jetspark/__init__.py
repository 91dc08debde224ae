"""NATS JetStream for Python and for Spark. The public names, nothing else."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from jetspark._version import __version__
from jetspark.client import Connection, connect
from jetspark.core.connection import Statistics
from jetspark.core.events import Event
from jetspark.core.link import State
from jetspark.core.message import Msg
from jetspark.core.server_info import ServerInfo
from jetspark.core.subscription import Subscription
from jetspark.errors import (
    APIError,
    AuthorizationError,
    BadRequest,
    BatchPublishError,
    ConnectionClosed,
    ConnectionDraining,
    ConnectionError,
    ConnectionLost,
    ConsumerDeleted,
    ConsumerIsPull,
    ConsumerIsPush,
    ConsumerMismatch,
    ConsumerNameInUse,
    ConsumerNotFound,
    DataLoss,
    DuplicateSubscription,
    Error,
    ExceededLimit,
    HeadersNotSupported,
    InsufficientResources,
    JetStreamError,
    JetStreamNotEnabled,
    JetStreamNotEnabledForAccount,
    JetStreamUnavailable,
    LeadershipChanged,
    MaxPayloadError,
    MessageGap,
    MessageNotFound,
    MissedHeartbeat,
    NoMatchingStream,
    NoResponders,
    NoServersError,
    NoStreamForSubject,
    NotJetStreamMessage,
    OutboundBufferFull,
    PermissionsViolation,
    PinIdMismatch,
    PublishError,
    RemoteProtocolError,
    ServerError,
    ServerNotFound,
    ServerShutdown,
    ServerStartError,
    SlowConsumer,
    StaleConnection,
    StatusError,
    StreamFull,
    StreamNameInUse,
    StreamNotFound,
    StreamSealed,
    StreamSubjectOverlap,
    SubscribeError,
    SubscriptionClosed,
    Timeout,
    TLSError,
    TooManyRequests,
    UsageError,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.jetstream.advisory import Advisories
from jetspark.jetstream.advisory_events import Advisory
from jetspark.jetstream.batch import AtomicBatch
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.consumer_config import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)
from jetspark.jetstream.consuming import Consuming, Messages
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.info import AccountInfo, ConsumerInfo, StreamInfo, StreamState
from jetspark.jetstream.message import Batch, JetStreamMsg, ack_all
from jetspark.jetstream.metadata import Metadata, SequencePair
from jetspark.jetstream.ordered import OrderedConsumer
from jetspark.jetstream.publisher import Publisher
from jetspark.jetstream.pull_subscribe import PullSubscription
from jetspark.jetstream.push import PushSubscription
from jetspark.jetstream.requests import PubAck
from jetspark.jetstream.stored import StoredMessage
from jetspark.jetstream.stream import Stream
from jetspark.jetstream.stream_config import (
    DiscardPolicy,
    ExternalStream,
    PersistMode,
    Placement,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransform,
)
from jetspark.wire.headers import Headers

if TYPE_CHECKING:
    from jetspark import blocking, server

__all__ = [
    "APIError",
    "AccountInfo",
    "AckPolicy",
    "Advisories",
    "Advisory",
    "AtomicBatch",
    "AuthorizationError",
    "BadRequest",
    "Batch",
    "BatchPublishError",
    "Connection",
    "ConnectionClosed",
    "ConnectionDraining",
    "ConnectionError",
    "ConnectionLost",
    "Consumer",
    "ConsumerConfig",
    "ConsumerDeleted",
    "ConsumerInfo",
    "ConsumerIsPull",
    "ConsumerIsPush",
    "ConsumerMismatch",
    "ConsumerNameInUse",
    "ConsumerNotFound",
    "Consuming",
    "DataLoss",
    "DeadLetter",
    "DeliverPolicy",
    "DiscardPolicy",
    "DuplicateSubscription",
    "Error",
    "Event",
    "ExceededLimit",
    "ExternalStream",
    "Headers",
    "HeadersNotSupported",
    "InsufficientResources",
    "JetStream",
    "JetStreamError",
    "JetStreamMsg",
    "JetStreamNotEnabled",
    "JetStreamNotEnabledForAccount",
    "JetStreamUnavailable",
    "LeadershipChanged",
    "MaxPayloadError",
    "MessageGap",
    "MessageNotFound",
    "Messages",
    "Metadata",
    "MissedHeartbeat",
    "Msg",
    "NoMatchingStream",
    "NoResponders",
    "NoServersError",
    "NoStreamForSubject",
    "NotJetStreamMessage",
    "OrderedConsumer",
    "OutboundBufferFull",
    "PermissionsViolation",
    "PersistMode",
    "PinIdMismatch",
    "Placement",
    "PriorityPolicy",
    "PubAck",
    "PublishError",
    "Publisher",
    "PullSubscription",
    "PushSubscription",
    "RePublish",
    "RemoteProtocolError",
    "ReplayPolicy",
    "RetentionPolicy",
    "SequencePair",
    "ServerError",
    "ServerInfo",
    "ServerNotFound",
    "ServerShutdown",
    "ServerStartError",
    "SlowConsumer",
    "StaleConnection",
    "State",
    "Statistics",
    "StatusError",
    "StorageType",
    "StoreCompression",
    "StoredMessage",
    "Stream",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamFull",
    "StreamInfo",
    "StreamNameInUse",
    "StreamNotFound",
    "StreamSealed",
    "StreamSource",
    "StreamState",
    "StreamSubjectOverlap",
    "SubjectTransform",
    "SubscribeError",
    "Subscription",
    "SubscriptionClosed",
    "TLSError",
    "Timeout",
    "TooManyRequests",
    "UsageError",
    "WrongLastMsgId",
    "WrongLastSequence",
    "__version__",
    "ack_all",
    "blocking",
    "connect",
    "server",
]


def __getattr__(name: str) -> ModuleType:
    """Load `jetspark.server` and `jetspark.blocking` when they are first used."""
    if name in ("blocking", "server"):
        return importlib.import_module(f"jetspark.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
