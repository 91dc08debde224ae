"""NATS JetStream for Python and for Spark. The public names, nothing else.

They are loaded when they are first used, so that what needs few of them, above all the command line, starts
at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from jetspark._version import __version__

if TYPE_CHECKING:
    from jetspark import blocking, server
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
    from jetspark.jetstream.advisories import Advisories
    from jetspark.jetstream.consumer import Consumer
    from jetspark.jetstream.context import JetStream
    from jetspark.jetstream.dead_letters import DeadLetter
    from jetspark.jetstream.message.delivered import Batch, JetStreamMsg, ack_all
    from jetspark.jetstream.message.metadata import Metadata, SequencePair
    from jetspark.jetstream.message.stored import StoredMessage
    from jetspark.jetstream.model.advisories import Advisory
    from jetspark.jetstream.model.consumer import (
        AckPolicy,
        ConsumerConfig,
        DeliverPolicy,
        PriorityPolicy,
        ReplayPolicy,
    )
    from jetspark.jetstream.model.info import AccountInfo, ConsumerInfo, StreamInfo, StreamState
    from jetspark.jetstream.model.requests import PubAck
    from jetspark.jetstream.model.stream import (
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
    from jetspark.jetstream.ordered.pull import OrderedConsumer
    from jetspark.jetstream.publish.atomic import AtomicBatch
    from jetspark.jetstream.publish.publisher import Publisher
    from jetspark.jetstream.pull.iterate import Consuming, Messages
    from jetspark.jetstream.push.subscription import PushSubscription
    from jetspark.jetstream.stream import Stream
    from jetspark.jetstream.subscribe.pull import PullSubscription
    from jetspark.wire.headers import Headers

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

#: Where the names come from, in the order in which they are looked for; each module lists its own.
_HOMES: Final = (
    "errors",
    "client",
    "core.connection",
    "core.events",
    "core.link",
    "core.message",
    "core.server_info",
    "core.subscription",
    "jetstream.advisories",
    "jetstream.context",
    "jetstream.dead_letters",
    "jetstream.stream",
    "jetstream.message.delivered",
    "jetstream.message.metadata",
    "jetstream.message.stored",
    "jetstream.model.advisories",
    "jetstream.model.consumer",
    "jetstream.model.info",
    "jetstream.model.requests",
    "jetstream.model.stream",
    "jetstream.ordered.pull",
    "jetstream.publish.atomic",
    "jetstream.publish.publisher",
    "jetstream.consumer",
    "jetstream.pull.iterate",
    "jetstream.push.subscription",
    "jetstream.subscribe.pull",
    "wire.headers",
)
#: Parts that are used under their own name.
_PARTS: Final = ("blocking", "client", "core", "errors", "jetstream", "server", "wire")


if not TYPE_CHECKING:  # A type checker that sees it would accept any name.

    def __getattr__(name: str) -> object:
        """Load a public name, or a part of the package, when it is first used."""
        if name in _PARTS:
            if name not in ("errors", "server"):
                importlib.import_module("jetspark.client")  # with all that the layers below it hold
            return importlib.import_module(f"jetspark.{name}")
        if name in __all__:
            for home in _HOMES:
                module = importlib.import_module(f"jetspark.{home}")
                if name in module.__all__:
                    value = globals()[name] = getattr(module, name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
