"""Every exception that jetspark raises. Nothing else lives here.

```
Error                              everything below; carries `hint`, what the user can do about it
├── UsageError (ValueError)        a bad argument or option; nothing was sent
│   ├── MaxPayloadError            the message is larger than the server's `max_payload`
│   └── HeadersNotSupported        headers were given, the server does not take them
├── Timeout (TimeoutError)         a deadline passed; the connection goes on
├── ConnectionError (OSError)      the connection could not be made or kept
│   ├── NoServersError             none of the servers could be reached
│   ├── ConnectionClosed           the connection is closed (by the user or for good)
│   ├── ConnectionLost             it broke under a request; it is reconnecting
│   ├── ConnectionDraining         the connection or subscription is draining
│   ├── StaleConnection            pings were not answered
│   ├── OutboundBufferFull         `pending_size` bytes are waiting to be written
│   └── TLSError                   TLS was required and could not be had
├── ServerError                    the server said -ERR
│   ├── AuthorizationError         wrong, missing or expired credentials
│   └── PermissionsViolation       the subject is not allowed to this user
├── NoResponders                   nobody listens on the subject of a request
│   └── NoStreamForSubject         no stream stores the subject; also a JetStreamError
├── RemoteProtocolError            the peer sent something that is not the NATS protocol
├── SlowConsumer                   a subscription was full and dropped messages
├── SubscriptionClosed             the subscription was unsubscribed or its connection closed
├── ServerStartError               nats-server did not start; the message holds its log
├── ServerNotFound                 no nats-server executable
└── JetStreamError                 everything below is about JetStream
    ├── APIError                   the server refused; carries `code`, `err_code`, `description`
    │   ├── StreamNotFound         there is no such stream
    │   ├── ConsumerNotFound       there is no such consumer, or it was not used for too long
    │   ├── MessageNotFound        no message with this sequence or subject
    │   ├── StreamNameInUse        a stream of this name has another configuration
    │   ├── StreamSubjectOverlap   another stream stores these subjects
    │   ├── StreamFull             a limit is reached and the stream refuses new messages
    │   ├── StreamSealed           a sealed stream neither takes nor deletes messages
    │   ├── ConsumerNameInUse      a consumer of this name has another configuration
    │   ├── WrongLastSequence      the stream has moved on since; nothing was stored
    │   │   └── WrongLastMsgId     the same, seen by message id
    │   ├── BatchPublishError      a batch was refused; nothing of it was stored
    │   ├── TooManyRequests        the server has too much to do; try again later
    │   ├── InsufficientResources  no storage, memory or quota left
    │   ├── JetStreamUnavailable   no leader at the moment; try again
    │   └── JetStreamNotEnabled    not on this server
    │       └── JetStreamNotEnabledForAccount  not for this account
    ├── StatusError                a pull request ended badly; carries `status`, `description`
    │   ├── BadRequest             400, the request made no sense
    │   ├── ConsumerDeleted        409, somebody deleted the consumer
    │   ├── ConsumerIsPush         409, it pushes: one cannot pull from it
    │   ├── LeadershipChanged      409, another server leads the consumer; pull again
    │   ├── ServerShutdown         409, the server stops; pull again
    │   ├── ExceededLimit          409, asked for more than the consumer allows
    │   └── PinIdMismatch          423, another client is pinned now
    ├── SubscribeError             what was asked for does not fit what the server has
    │   ├── NoMatchingStream       no stream has the subject, or several have; carries `streams`
    │   ├── DuplicateSubscription  somebody is subscribed to this push consumer already
    │   ├── ConsumerMismatch       the consumer is another one than asked for; carries `differences`
    │   └── ConsumerIsPull         one cannot subscribe to it, only pull
    ├── PublishError               messages of a publisher failed; carries `failed`, how many
    ├── DataLoss                   a stream no longer holds what was to be read; names the range
    ├── MessageGap                 a push consumer delivered what never arrived; carries what is missing
    ├── MissedHeartbeat            the server was silent for several heartbeats
    └── NotJetStreamMessage        the message has no acknowledgement subject
```

All of them survive pickling with their attributes and hints, so that they can cross process borders.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "APIError",
    "AuthorizationError",
    "BadRequest",
    "BatchPublishError",
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
    "DuplicateSubscription",
    "Error",
    "ExceededLimit",
    "HeadersNotSupported",
    "InsufficientResources",
    "JetStreamError",
    "JetStreamNotEnabled",
    "JetStreamNotEnabledForAccount",
    "JetStreamUnavailable",
    "LeadershipChanged",
    "MaxPayloadError",
    "MessageGap",
    "MessageNotFound",
    "MissedHeartbeat",
    "NoMatchingStream",
    "NoResponders",
    "NoServersError",
    "NoStreamForSubject",
    "NotJetStreamMessage",
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
]


def _rebuild(cls: type[Error], args: tuple[object, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Error(Exception):
    """The root of the tree. `hint` says what the user can do, when there is something."""

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
    """The message is larger than the server accepts. Refused locally, so the connection stays."""


class HeadersNotSupported(UsageError):
    """Headers were given, and the server does not take them."""


class Timeout(Error, TimeoutError):
    """A deadline passed. The connection goes on."""

    transient = True


class ConnectionError(Error, builtins.ConnectionError):
    """The connection could not be made or kept."""


class NoServersError(ConnectionError):
    """None of the servers could be reached; the message lists why, one reason a server."""


class ConnectionClosed(ConnectionError):
    """The connection is closed, by the user or because reconnecting was given up."""


class ConnectionLost(ConnectionError):
    """The connection broke while an answer was awaited. It reconnects; whether the server saw the request is
    unknown.
    """

    transient = True


class ConnectionDraining(ConnectionError):
    """The connection or the subscription is draining and takes nothing new."""


class StaleConnection(ConnectionError):
    """Pings were not answered in time: the peer is gone without having said so."""


class OutboundBufferFull(ConnectionError):
    """As many bytes as `pending_size` allows wait to be written. The message was not taken."""


class TLSError(ConnectionError):
    """TLS was required and could not be had. No credentials were sent."""


class ServerError(Error):
    """The server answered -ERR."""


class AuthorizationError(ServerError):
    """Wrong, missing, revoked or expired credentials."""


class PermissionsViolation(ServerError):
    """The user may not publish or subscribe there. The connection stays."""


class NoResponders(Error):
    """Nobody listens on the subject of a request."""

    transient = True


class RemoteProtocolError(Error):
    """The peer sent something that is not the NATS protocol."""


class SlowConsumer(Error):
    """A subscription was full, and messages for it were dropped: `dropped` of them until now."""

    def __init__(
        self, message: str = "", *, subject: str = "", dropped: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.dropped = dropped


class SubscriptionClosed(Error):
    """The subscription was unsubscribed, or its connection closed."""


class ServerStartError(Error):
    """nats-server did not start. The message holds what it logged."""


class ServerNotFound(Error):
    """There is no nats-server executable to run."""


class JetStreamError(Error):
    """Everything that is about JetStream."""


class NoStreamForSubject(NoResponders, JetStreamError):
    """No stream stores what is published to this subject."""


class PublishError(JetStreamError):
    """Messages of a publisher are not stored, or it is unknown: `failed` of them since it last said so, the
    first of them number `first` of all that were published, counted from 1.

    Its cause is the first error; each message's own is on its future.
    """

    def __init__(
        self, message: str = "", *, failed: int = 0, first: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.failed = failed
        self.first = first


class DataLoss(JetStreamError):
    """Messages that were to be read are gone: of `stream`, the sequences from `first_seq` up to, and without,
    `next_seq`, which is None when nobody knows. `cause` says why, as far as it can be known.
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
        told = message or f"stream {stream} lost the sequences [{first_seq}, {up_to}): {cause}"
        super().__init__(told, hint=hint)
        self.stream = stream
        self.first_seq = first_seq
        self.next_seq = next_seq
        self.cause = cause


class APIError(JetStreamError):
    """The JetStream API refused. `code` is like an HTTP status, `err_code` says exactly what, in the
    server's numbering; `description` says it in the server's words.
    """

    #: What the message says when the stream or consumer is known, instead of the description.
    _message: ClassVar[str] = ""
    #: What the user can do, unless `_HINTS` knows better.
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
        # With 503 the server says "not now", whatever the error; a lack of resources lasts all the same.
        self.transient = self.transient or (code == 503 and not isinstance(self, InsufficientResources))
        self.stream = stream
        self.consumer = consumer

    @staticmethod
    def from_wire(
        error: Mapping[str, Any], *, stream: str | None = None, consumer: str | None = None
    ) -> APIError:
        """The exception for the `error` object of an answer. The names are those that were asked for."""
        code, err_code = error.get("code", 0), error.get("err_code", 0)
        description = error.get("description", "unknown error")
        cls: type[APIError] = APIError
        hint = None
        if _ONLY_WITH.get(err_code, "") in description:
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
    """There is no such stream."""

    _message = "stream {stream} not found"
    _hint = "Create it with js.create_stream(...), or check `domain` and the account"


class ConsumerNotFound(APIError):
    """There is no such consumer. An ephemeral one is deleted after a while without use."""

    _message = "consumer {consumer} of stream {stream} not found"
    _hint = "Create it with stream.create_consumer(...); one without durable_name goes when it is not used"


class MessageNotFound(APIError):
    """There is no message with this sequence or subject, or it is deleted."""


class StreamNameInUse(APIError):
    """There is a stream of this name, with another configuration."""

    _hint = "Use js.update_stream(...) or js.create_or_update_stream(...), or another name"


class StreamSubjectOverlap(APIError):
    """Another stream stores some of these subjects already."""

    _hint = "js.stream_names(subject=...) tells which stream it is"


class StreamFull(APIError):
    """A limit of the stream is reached, and its `discard` is new. The message was not stored."""

    _hint = "Raise max_msgs, max_bytes or max_msgs_per_subject, consume and acknowledge, or discard='old'"


class StreamSealed(APIError):
    """The stream is sealed: it neither takes nor deletes messages."""


class ConsumerNameInUse(APIError):
    """There is a consumer of this name, with another configuration."""

    _hint = "Use stream.update_consumer(...) or create_or_update_consumer(...), or another name"


class WrongLastSequence(APIError):
    """The stream or subject is not where the publisher expected it. The message was not stored."""

    @property
    def last_sequence(self) -> int | None:
        """The sequence that it is at, when the server says so."""
        number = self.description.rpartition(": ")[2]
        return int(number) if number.isdecimal() else None


class WrongLastMsgId(WrongLastSequence):
    """The last message of the stream has another `Nats-Msg-Id` than expected. Nothing was stored."""


class BatchPublishError(APIError):
    """A batch was refused, and nothing of it was stored."""


class TooManyRequests(APIError):
    """The server has too many requests or batches under way."""

    transient = True
    _hint = "Try again later"


class InsufficientResources(APIError):
    """The server or the account has no storage, memory, streams or consumers left."""

    _hint = "Free some, or raise the limits of the server or account; js.account_info() shows them"


class JetStreamUnavailable(APIError):
    """Nobody leads at the moment, as during an election, or too many servers are gone."""

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
    JetStreamUnavailable: (10004, 10008, 10009, 10118, 10119, 10163, 10194, 10195),
    JetStreamNotEnabled: (10076,),
    JetStreamNotEnabledForAccount: (10035, 10039),
}
_CLASSES = {err_code: cls for cls, err_codes in _ERR_CODES.items() for err_code in err_codes}

# These numbers are said of several things: they get their class and hint only with this in the description.
_ONLY_WITH = {
    10025: "unknown field",
    10057: "EOF",  # deleting a message that is not there
    10077: "maximum",
}

_HINTS = {
    10025: "The server is older than this setting",
    10054: "The limit is max_msg_size of the stream",
    10074: "This server is not in a cluster: num_replicas must be 1",
    10084: "Use ack_policy='explicit' on a work-queue stream",
    10098: "Use ack_policy='explicit' on a work-queue stream",
    10099: "A work-queue stream has one consumer per subject: give it a filter_subject",
    10100: "A work-queue stream has one consumer per subject: filters must not overlap",
    10166: "Update the stream with allow_msg_ttl=True",
    10168: "Only a stream created with allow_msg_counter=True counts",
    10174: "Update the stream with allow_atomic=True",
    10188: "Update the stream with allow_msg_schedules=True",
    10205: "Update the stream with allow_batched=True",
}


class StatusError(JetStreamError):
    """A pull request ended with a status that is an error."""

    transient = True

    def __init__(
        self, message: str = "", *, status: int = 0, description: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message or f"{status} {description}".strip(), hint=hint)
        self.status = status
        self.description = description


class BadRequest(StatusError):
    """The server did not understand the pull request, or the consumer does not take such ones."""

    transient = False


class ConsumerDeleted(StatusError):
    """The consumer was deleted while a pull request waited."""

    transient = False


class ConsumerIsPush(StatusError):
    """The consumer pushes to a deliver subject: one cannot pull from it."""

    transient = False


class LeadershipChanged(StatusError):
    """Another server leads the consumer now, and the pull request is forgotten. Pull again."""


class ServerShutdown(StatusError):
    """The server that leads the consumer stops. Pull again."""


class ExceededLimit(StatusError):
    """The request asked for more than `max_batch`, `max_expires`, `max_bytes` or `max_waiting` allow."""


class PinIdMismatch(StatusError):
    """Another client is pinned in the priority group now."""


class SubscribeError(JetStreamError):
    """What `subscribe` or `pull_subscribe` was asked for does not fit what the server has."""


class NoMatchingStream(SubscribeError):
    """Not exactly one stream stores the subject: `streams` are those that do."""

    def __init__(
        self, message: str = "", *, subject: str = "", streams: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.streams = streams


class DuplicateSubscription(SubscribeError):
    """Somebody is subscribed to this push consumer, which is not meant for several."""


class ConsumerMismatch(SubscribeError):
    """There is a consumer of this name, and it is another one than asked for; it was not changed.

    `differences` has, for each field of the configuration, what was asked for and what is there.
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
    """The consumer has no deliver subject: one can only pull from it."""


class MessageGap(JetStreamError):
    """A push consumer delivered messages that did not arrive.

    `expected` is the first delivery that is missing, in the numbering of the consumer, `received` the one
    that came instead or was announced by a heartbeat; `stream_sequence` is where the stream was then.
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
    """The server sent neither a message nor a heartbeat for longer than it may be silent: two heartbeats
    of a pull, three of a push consumer unless told otherwise.
    """


class NotJetStreamMessage(JetStreamError):
    """The message did not come from a consumer: its reply is no acknowledgement subject."""
