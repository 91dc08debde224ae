"""Every exception that jetspark raises. Nothing else lives here.

```
Error                              everything below; `hint` says what the user can do
├── UsageError (ValueError)        a bad argument or option; nothing was sent
│   ├── MaxPayloadError            the message is larger than the server's `max_payload`
│   └── HeadersNotSupported        headers were given, the server does not support them
├── Timeout (TimeoutError)         a deadline passed; the connection stays open
│   └── NotSent                    a request could not be sent in time: it had no effect
├── ConnectionError (OSError)      the connection could not be made or kept
│   ├── NoServersError             none of the servers could be reached
│   ├── ConnectionClosed           the connection is closed (by the user or for good)
│   ├── ConnectionLost             it broke during a request; it is reconnecting
│   ├── ConnectionDraining         the connection or subscription is draining
│   ├── StaleConnection            pings were not answered
│   ├── OutboundBufferFull         `pending_size` bytes are waiting to be written
│   └── TLSError                   TLS is required and not available
├── ServerError                    the server sent -ERR
│   ├── AuthorizationError         wrong, missing or expired credentials
│   └── PermissionsViolation       the subject is not allowed to this user
├── NoResponders                   no subscriber on the subject of a request
│   └── NoStreamForSubject         no stream stores the subject; also a JetStreamError
├── RemoteProtocolError            the peer sent something that is not the NATS protocol
├── SlowConsumer                   a subscription was full and dropped messages
├── SubscriptionClosed             the subscription was unsubscribed or its connection closed
├── ServerStartError               nats-server did not start; the message holds its log
├── ServerNotFound                 no nats-server executable
├── MissingExtra (ImportError)     an optional dependency is not installed
└── JetStreamError                 everything below is about JetStream
    ├── APIError                   the server refused; carries `code`, `err_code`, `description`
    │   ├── StreamNotFound         the stream does not exist
    │   │   └── BucketNotFound     the bucket does not exist
    │   ├── ConsumerNotFound       the consumer does not exist, or was not used for too long
    │   ├── MessageNotFound        no message with this sequence or subject
    │   ├── StreamNameInUse        a stream of this name has another configuration
    │   │   └── BucketExists       a bucket of this name has another configuration
    │   ├── StreamSubjectOverlap   another stream stores these subjects
    │   ├── StreamFull             a limit is reached and the stream refuses new messages
    │   ├── StreamSealed           a sealed stream neither stores nor deletes messages
    │   ├── ConsumerNameInUse      a consumer of this name has another configuration
    │   ├── WrongLastSequence      the stream is not at the expected sequence
    │   │   ├── WrongLastMsgId     the same for the expected message id
    │   │   ├── KeyExists          the key to create has a value
    │   │   └── WrongRevision      the key is not at the expected revision
    │   ├── BatchPublishError      a batch was refused; none of its messages was stored
    │   ├── TooManyRequests        the server is too busy; try again later
    │   ├── InsufficientResources  no storage, memory or quota left
    │   ├── JetStreamUnavailable   no leader at the moment; try again
    │   └── JetStreamNotEnabled    not on this server
    │       └── JetStreamNotEnabledForAccount  not for this account
    ├── StatusError                a pull request failed; carries `status`, `description`
    │   ├── BadRequest             400, the request is invalid
    │   ├── ConsumerDeleted        409, the consumer was deleted
    │   ├── ConsumerIsPush         409, a push consumer: pulling is not possible
    │   ├── LeadershipChanged      409, another server leads the consumer; pull again
    │   ├── ServerShutdown         409, the server shuts down; pull again
    │   ├── ExceededLimit          409, the request exceeds a limit of the consumer
    │   └── PinIdMismatch          423, another client is pinned now
    ├── SubscribeError             the arguments do not fit the server's streams and consumers
    │   ├── NoMatchingStream       no stream stores the subject, or several do; carries `streams`
    │   ├── DuplicateSubscription  this push consumer already has a subscriber
    │   ├── ConsumerMismatch       the consumer is configured differently; carries `differences`
    │   └── ConsumerIsPull         a pull consumer: subscribing is not possible
    ├── KeyNotFound                the key has no value; carries the tombstone, if it had one
    ├── ObjectNotFound             the object does not exist in the store, or was deleted
    ├── ObjectExists               an object of this name exists already
    ├── DigestMismatch             the data of an object does not match its digest
    ├── PublishError               messages of a publisher failed; carries `failed`, how many
    ├── DataLoss                   a stream lost messages before they were read; names the range
    ├── MessageGap                 messages of a push consumer did not arrive; names the range
    ├── MissedHeartbeat            several heartbeats of the server are missing
    └── NotJetStreamMessage        the message has no acknowledgement subject
```

All of them can be pickled with their attributes and hints, so that they can cross process boundaries.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

__all__ = [
    "APIError",
    "AuthorizationError",
    "BadRequest",
    "BatchPublishError",
    "BucketExists",
    "BucketNotFound",
    "ConnectionClosed",
    "ConnectionDraining",
    "ConnectionError",
    "ConnectionLost",
    "ConsumerDeleted",
    "ConsumerIsPull",
    "ConsumerIsPush",
    "ConsumerMismatch",
    "ConsumerNameInUse",
    "ConsumerNotFound",
    "DataLoss",
    "DigestMismatch",
    "DuplicateSubscription",
    "Error",
    "ExceededLimit",
    "HeadersNotSupported",
    "InsufficientResources",
    "JetStreamError",
    "JetStreamNotEnabled",
    "JetStreamNotEnabledForAccount",
    "JetStreamUnavailable",
    "KeyExists",
    "KeyNotFound",
    "LeadershipChanged",
    "MaxPayloadError",
    "MessageGap",
    "MessageNotFound",
    "MissedHeartbeat",
    "MissingExtra",
    "NoMatchingStream",
    "NoResponders",
    "NoServersError",
    "NoStreamForSubject",
    "NotJetStreamMessage",
    "NotSent",
    "ObjectExists",
    "ObjectNotFound",
    "OutboundBufferFull",
    "PermissionsViolation",
    "PinIdMismatch",
    "PublishError",
    "RemoteProtocolError",
    "ServerError",
    "ServerNotFound",
    "ServerShutdown",
    "ServerStartError",
    "SlowConsumer",
    "StaleConnection",
    "StatusError",
    "StreamFull",
    "StreamNameInUse",
    "StreamNotFound",
    "StreamSealed",
    "StreamSubjectOverlap",
    "SubscribeError",
    "SubscriptionClosed",
    "TLSError",
    "Timeout",
    "TooManyRequests",
    "UsageError",
    "WrongLastMsgId",
    "WrongLastSequence",
    "WrongRevision",
]


def _rebuild(cls: type[Error], args: tuple[object, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Error(Exception):
    """The root of the tree. `hint` says what the user can do, if anything."""

    #: Whether the same call may succeed a little later: no leader, no answer, no connection.
    transient: bool = False

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else type(self).__name__
        return f"{message}. {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class UsageError(Error, ValueError):
    """A bad argument or option. Nothing was sent."""


class MaxPayloadError(UsageError):
    """The message is larger than the server accepts. It was not sent, so the connection stays open."""


class HeadersNotSupported(UsageError):
    """Headers were given, and the server does not support them."""


class Timeout(Error, TimeoutError):
    """A deadline passed. The connection stays open."""

    transient = True


class NotSent(Timeout):
    """A request could not be written before its deadline. It was withdrawn, and had no effect."""


class ConnectionError(Error, builtins.ConnectionError):
    """The connection could not be made or kept."""


class NoServersError(ConnectionError):
    """None of the servers could be reached; the message has one reason per server."""


class ConnectionClosed(ConnectionError):
    """The connection is closed, by the user or because reconnecting failed for good."""


class ConnectionLost(ConnectionError):
    """The connection broke before the answer; the server may have received the request. It reconnects."""

    transient = True


class ConnectionDraining(ConnectionError):
    """The connection or the subscription is draining and accepts nothing new."""


class StaleConnection(ConnectionError):
    """Pings were not answered in time: the server is unreachable, though the connection was not closed."""


class OutboundBufferFull(ConnectionError):
    """`pending_size` bytes wait to be written. The message was not queued."""


class TLSError(ConnectionError):
    """TLS is required and could not be established. No credentials were sent."""


class ServerError(Error):
    """The server answered -ERR."""


class AuthorizationError(ServerError):
    """Wrong, missing, revoked or expired credentials."""


class PermissionsViolation(ServerError):
    """The user may not publish or subscribe to the subject. The connection stays open."""


class NoResponders(Error):
    """No subscriber on the subject of a request."""

    transient = True


class RemoteProtocolError(Error):
    """The peer sent something that is not the NATS protocol."""


class SlowConsumer(Error):
    """A subscription was full and dropped messages: `dropped` of them so far."""

    def __init__(
        self, message: str = "", *, subject: str = "", dropped: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.dropped = dropped


class SubscriptionClosed(Error):
    """The subscription was unsubscribed, or its connection closed."""


class ServerStartError(Error):
    """nats-server did not start. The message holds its log."""


class ServerNotFound(Error):
    """The nats-server executable was not found."""


class MissingExtra(Error, ModuleNotFoundError):
    """An optional dependency is not installed; the hint names the extra."""


class JetStreamError(Error):
    """The base of all JetStream errors."""


class NoStreamForSubject(NoResponders, JetStreamError):
    """No stream stores this subject."""


class PublishError(JetStreamError):
    """Messages of a publisher were not acknowledged: `failed` of them since the last such error.

    `first` is the number of the first one among all published messages, counted from 1. Its cause is the
    error of the first one; the future of each message has its own.
    """

    def __init__(
        self, message: str = "", *, failed: int = 0, first: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.failed = failed
        self.first = first


class KeyNotFound(JetStreamError):
    """A key of a bucket has no value. If it had one, `operation` (`DEL` or `PURGE`), `revision` and `created`
    are those of the tombstone; else they are None.
    """

    def __init__(
        self,
        message: str = "",
        *,
        bucket: str = "",
        key: str = "",
        operation: str | None = None,
        revision: int | None = None,
        created: datetime | None = None,
        hint: str | None = None,
    ) -> None:
        deleted = f": deleted by {operation} at revision {revision}" if operation else ""
        super().__init__(message or f"key {key!r} not found in bucket {bucket}{deleted}", hint=hint)
        self.bucket = bucket
        self.key = key
        self.operation = operation
        self.revision = revision
        self.created = created


class ObjectNotFound(JetStreamError):
    """The object does not exist in the store; `deleted` if it did before."""

    def __init__(
        self,
        message: str = "",
        *,
        bucket: str = "",
        name: str = "",
        deleted: bool = False,
        hint: str | None = None,
    ) -> None:
        was = ": it was deleted" if deleted else ""
        super().__init__(message or f"object {name!r} not found in bucket {bucket}{was}", hint=hint)
        self.bucket = bucket
        self.name = name
        self.deleted = deleted


class ObjectExists(JetStreamError):
    """An object of this name exists: a link cannot replace it, and no other object can get its name."""

    def __init__(
        self, message: str = "", *, bucket: str = "", name: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message or f"object {name!r} of bucket {bucket} exists", hint=hint)
        self.bucket = bucket
        self.name = name


class DigestMismatch(JetStreamError):
    """The data of an object does not match its stored size or digest."""


class DataLoss(JetStreamError):
    """A stream lost messages before they were read: of `stream`, the sequences from `first_seq` to before
    `next_seq`, which is None when unknown. `cause` says why, as far as it is known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        stream: str = "",
        first_seq: int = 0,
        next_seq: int | None = None,
        cause: str = "",
        hint: str | None = None,
    ) -> None:
        up_to = "..." if next_seq is None else next_seq
        text = message or f"stream {stream} lost the sequences [{first_seq}, {up_to}): {cause}"
        super().__init__(text, hint=hint)
        self.stream = stream
        self.first_seq = first_seq
        self.next_seq = next_seq
        self.cause = cause


class APIError(JetStreamError):
    """The JetStream API refused a request. `code` is like an HTTP status, `err_code` the server's number
    of the error, `description` its text.
    """

    #: The message when the stream or consumer is known, instead of the description.
    _message: ClassVar[str] = ""
    #: The hint, unless `_HINTS` has one for the number.
    _hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str = "",
        *,
        code: int = 0,
        err_code: int = 0,
        description: str = "",
        stream: str | None = None,
        consumer: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message or f"{description} ({err_code or code})", hint=hint)
        self.code = code
        self.err_code = err_code
        self.description = description
        # 503 means "not now", whatever the error; but a lack of resources lasts.
        self.transient = self.transient or (code == 503 and not isinstance(self, InsufficientResources))
        self.stream = stream
        self.consumer = consumer

    @staticmethod
    def from_wire(
        error: Mapping[str, Any], *, stream: str | None = None, consumer: str | None = None
    ) -> APIError:
        """The exception for the `error` object of an answer. The names are those in the request."""
        code, err_code = error.get("code", 0), error.get("err_code", 0)
        description = error.get("description", "unknown error")
        cls: type[APIError] = APIError
        hint = None
        if any(text in description for text in _ONLY_WITH.get(err_code, ("",))):
            cls = _CLASSES.get(err_code, APIError)
            hint = _HINTS.get(err_code, cls._hint)
        message = description
        if stream and cls._message and (consumer or "{consumer}" not in cls._message):
            message = cls._message.format(stream=stream, consumer=consumer)
        elif stream:
            message = f"{f'consumer {consumer} of ' if consumer else ''}stream {stream}: {description}"
        return cls(
            f"{message} ({err_code or code})",
            code=code,
            err_code=err_code,
            description=description,
            stream=stream,
            consumer=consumer,
            hint=hint,
        )


class StreamNotFound(APIError):
    """The stream does not exist."""

    _message = "stream {stream} not found"
    _hint = "Create it with js.create_stream(...), or check `domain` and the account"


class BucketNotFound(StreamNotFound):
    """The key-value bucket or object store does not exist."""


class ConsumerNotFound(APIError):
    """The consumer does not exist. An ephemeral one is deleted after a while without use."""

    _message = "consumer {consumer} of stream {stream} not found"
    _hint = "Create it with stream.create_consumer(...); one without durable_name is deleted when unused"


class MessageNotFound(APIError):
    """No message has this sequence or subject, or it was deleted."""


class StreamNameInUse(APIError):
    """A stream of this name exists with another configuration."""

    _hint = "Use js.update_stream(...) or js.create_or_update_stream(...), or another name"


class BucketExists(StreamNameInUse):
    """A bucket of this name exists with another configuration."""


class StreamSubjectOverlap(APIError):
    """Another stream stores some of these subjects already."""

    _hint = "js.stream_names(subject=...) finds that stream"


class StreamFull(APIError):
    """A limit of the stream is reached, and its `discard` is new. The message was not stored."""

    _hint = "Raise max_msgs, max_bytes or max_msgs_per_subject, consume and acknowledge, or discard='old'"


class StreamSealed(APIError):
    """The stream is sealed: it neither stores nor deletes messages."""


class ConsumerNameInUse(APIError):
    """A consumer of this name exists with another configuration."""

    _hint = "Use stream.update_consumer(...) or create_or_update_consumer(...), or another name"


class WrongLastSequence(APIError):
    """The stream or subject is not where the publisher expected it. The message was not stored."""

    @property
    def last_sequence(self) -> int | None:
        """The last sequence, if the server sent it."""
        number = self.description.rpartition(": ")[2]
        return int(number) if number.isdecimal() and len(number) <= 20 else None


class WrongLastMsgId(WrongLastSequence):
    """The last message of the stream has another `Nats-Msg-Id` than expected. Nothing was stored."""


class KeyExists(WrongLastSequence):
    """The key to create has a value. Nothing was stored."""


class WrongRevision(WrongLastSequence):
    """The key is not at the expected revision: it changed meanwhile. Nothing was stored."""


class BatchPublishError(APIError):
    """A batch was refused, and none of its messages was stored."""


class TooManyRequests(APIError):
    """The server has too many requests or batches in progress."""

    transient = True
    _hint = "Try again later"


class InsufficientResources(APIError):
    """The server or the account has no storage, memory, streams or consumers left."""

    _hint = "Free some, or raise the limits of the server or account; js.account_info() shows them"


class JetStreamUnavailable(APIError):
    """JetStream has no leader at the moment, as during an election, or too many servers are down or slow."""

    transient = True
    _hint = "Try again: an election takes seconds"


class JetStreamNotEnabled(APIError):
    """The server runs without JetStream."""

    _hint = "Start nats-server with -js, or check `domain`"


class JetStreamNotEnabledForAccount(JetStreamNotEnabled):
    """The server has JetStream, but not for this account."""

    _hint = "Enable jetstream in the account's configuration, or check the credentials"


# Numbers: errors.json of nats-server.
_ERR_CODES: dict[type[APIError], tuple[int, ...]] = {
    StreamNotFound: (10059,),
    ConsumerNotFound: (10014, 10149),
    MessageNotFound: (10037, 10043, 10057),
    StreamNameInUse: (10058,),
    StreamSubjectOverlap: (10065,),
    StreamFull: (10077,),
    StreamSealed: (10109,),
    ConsumerNameInUse: (10013, 10105, 10148),
    WrongLastSequence: (10071, 10164),
    WrongLastMsgId: (10070,),
    BatchPublishError: (10174, 10175, 10176, 10177, 10179, 10199, 10200, 10201, 10205, 10206, 10207, 10208),
    TooManyRequests: (10167, 10210, 10211),
    InsufficientResources: (10002, 10023, 10026, 10027, 10028, 10047),
    JetStreamUnavailable: (10004, 10008, 10009, 10118, 10119, 10158, 10163, 10194, 10195),
    JetStreamNotEnabled: (10076,),
    JetStreamNotEnabledForAccount: (10035, 10039),
}
_CLASSES = {err_code: cls for cls, err_codes in _ERR_CODES.items() for err_code in err_codes}

# These numbers stand for several errors: they get their class and hint only with one of these texts.
_ONLY_WITH = {
    10025: ("unknown field",),
    10057: ("EOF", "no message found"),  # Deleting a message after the last, or before the first.
    10077: ("maximum",),
}

_HINTS = {
    10025: "The server is older than this setting",
    10054: "The limit is max_msg_size of the stream",
    10074: "This server is not in a cluster: num_replicas must be 1",
    10084: "Use ack_policy='explicit' on a work-queue stream",
    10098: "Use ack_policy='explicit' on a work-queue stream",
    10099: "A work-queue stream has one consumer per subject: give it a filter_subject",
    10100: "A work-queue stream has one consumer per subject: filters must not overlap",
    10158: "A message with this id is being stored. Publish it again with the same id: that is safe",
    10166: "Update the stream with allow_msg_ttl=True",
    10168: "Only a stream created with allow_msg_counter=True counts",
    10174: "Update the stream with allow_atomic=True",
    10185: "Update nats-server: its JetStream API is older than the request requires",
    10188: "Update the stream with allow_msg_schedules=True",
    10205: "Update the stream with allow_batched=True",
}


class StatusError(JetStreamError):
    """A pull request ended with an error status."""

    transient = True

    def __init__(
        self, message: str = "", *, status: int = 0, description: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message or f"{status} {description}".strip(), hint=hint)
        self.status = status
        self.description = description


class BadRequest(StatusError):
    """The pull request is invalid, or the consumer does not support it."""

    transient = False


class ConsumerDeleted(StatusError):
    """The consumer was deleted while a pull request waited."""

    transient = False


class ConsumerIsPush(StatusError):
    """The consumer has a deliver subject: pulling is not possible."""

    transient = False


class LeadershipChanged(StatusError):
    """Another server leads the consumer now, and the pull request is lost. Pull again."""


class ServerShutdown(StatusError):
    """The server that leads the consumer shuts down. Pull again."""


class ExceededLimit(StatusError):
    """The request exceeds `max_batch`, `max_expires`, `max_bytes` or `max_waiting` of the consumer."""


class PinIdMismatch(StatusError):
    """Another client is pinned in the priority group now."""


class SubscribeError(JetStreamError):
    """The arguments of `subscribe` or `pull_subscribe` do not fit the server's streams and consumers."""


class NoMatchingStream(SubscribeError):
    """No stream stores the subject, or several do: `streams` are those that do."""

    def __init__(
        self, message: str = "", *, subject: str = "", streams: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.streams = streams


class DuplicateSubscription(SubscribeError):
    """This push consumer has a subscriber, and no queue group for several."""


class ConsumerMismatch(SubscribeError):
    """A consumer of this name exists with another configuration; it was not changed.

    `differences` has, for each differing field, the requested and the existing value.
    """

    def __init__(
        self,
        message: str = "",
        *,
        differences: Mapping[str, tuple[object, object]] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.differences = dict(differences or {})


class ConsumerIsPull(SubscribeError):
    """The consumer has no deliver subject: it is for pulling only."""


class MessageGap(JetStreamError):
    """Messages that a push consumer delivered did not arrive.

    `expected` is the first delivery that is missing, in the numbering of the consumer, `received` the one
    that arrived instead or was announced by a heartbeat; `stream_sequence` is its stream sequence.
    """

    def __init__(
        self,
        message: str = "",
        *,
        expected: int = 0,
        received: int = 0,
        stream_sequence: int = 0,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.received = received
        self.stream_sequence = stream_sequence


class MissedHeartbeat(JetStreamError):
    """No message or heartbeat for too long: by default two heartbeats of a pull, three of a push consumer."""


class NotJetStreamMessage(JetStreamError):
    """No consumer delivered the message: its reply is not an acknowledgement subject."""
