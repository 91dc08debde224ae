"""NATS JetStream for Python and for Spark. The public names, nothing else."""

from __future__ import annotations

import importlib
from types import ModuleType

from jetspark._version import __version__
from jetspark.core.connect import connect
from jetspark.core.connection import Connection, Statistics
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
    ConsumerIsPush,
    ConsumerNameInUse,
    ConsumerNotFound,
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
    MessageNotFound,
    MissedHeartbeat,
    NoResponders,
    NoServersError,
    NotJetStreamMessage,
    OutboundBufferFull,
    PermissionsViolation,
    PinIdMismatch,
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
    SubscriptionClosed,
    Timeout,
    TLSError,
    TooManyRequests,
    UsageError,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.wire.headers import Headers

__all__ = [
    "APIError",
    "AuthorizationError",
    "BadRequest",
    "BatchPublishError",
    "Connection",
    "ConnectionClosed",
    "ConnectionDraining",
    "ConnectionError",
    "ConnectionLost",
    "ConsumerDeleted",
    "ConsumerIsPush",
    "ConsumerNameInUse",
    "ConsumerNotFound",
    "Error",
    "Event",
    "ExceededLimit",
    "Headers",
    "HeadersNotSupported",
    "InsufficientResources",
    "JetStreamError",
    "JetStreamNotEnabled",
    "JetStreamNotEnabledForAccount",
    "JetStreamUnavailable",
    "LeadershipChanged",
    "MaxPayloadError",
    "MessageNotFound",
    "MissedHeartbeat",
    "Msg",
    "NoResponders",
    "NoServersError",
    "NotJetStreamMessage",
    "OutboundBufferFull",
    "PermissionsViolation",
    "PinIdMismatch",
    "RemoteProtocolError",
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
    "StreamFull",
    "StreamNameInUse",
    "StreamNotFound",
    "StreamSealed",
    "StreamSubjectOverlap",
    "Subscription",
    "SubscriptionClosed",
    "TLSError",
    "Timeout",
    "TooManyRequests",
    "UsageError",
    "WrongLastMsgId",
    "WrongLastSequence",
    "__version__",
    "connect",
    "server",
]


def __getattr__(name: str) -> ModuleType:
    """Load `jetspark.server` and `jetspark.blocking` when they are first used."""
    if name in ("server",):
        return importlib.import_module(f"jetspark.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
