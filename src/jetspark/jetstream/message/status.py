"""The table of statuses: what each means for a fetch, a consume, a push subscription and a direct get.

A status is a message with an empty payload and a status line, written by the server (ADR-37, for direct gets
ADR-31). No other module compares codes or texts; texts are compared without case and by substring. No I/O,
no clock. The one exception is `core.request.no_responders`, which requests below JetStream need.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from jetspark.errors import (
    BadRequest,
    ConsumerDeleted,
    ConsumerIsPush,
    Error,
    ExceededLimit,
    LeadershipChanged,
    NoResponders,
    PinIdMismatch,
    ServerShutdown,
    StatusError,
)
from jetspark.wire import MsgFrame
from jetspark.wire.headers import Headers, has_status, parse_status

__all__ = ["Exceeded", "OnConsume", "OnDirectGet", "OnFetch", "OnPush", "Status", "classify", "is_status"]


class OnFetch(enum.Enum):
    """The effect of a status on a fetch."""

    CONTINUE = enum.auto()
    #: It ends; the messages that arrived are the result.
    END = enum.auto()
    #: The request has expired. The fetch ends too, unless it waits longer than one request may.
    EXPIRED = enum.auto()
    #: Another client is pinned: forget the pin id, ask again.
    UNPIN = enum.auto()
    #: It ends, with an error unless messages arrived.
    ERROR_IF_EMPTY = enum.auto()
    #: It ends with an error.
    ERROR = enum.auto()


class OnConsume(enum.Enum):
    """The effect of a status on a consume."""

    CONTINUE = enum.auto()
    #: The request ended: subtract it from the accounting and pull again.
    PULL = enum.auto()
    #: The request ended because the next message is larger than the bytes it had left.
    TOO_LARGE = enum.auto()
    #: All requests ended: notify, forget them and pull again.
    RESTART = enum.auto()
    #: The server refused the request: notify, back off, pull again.
    BACK_OFF = enum.auto()
    #: Another client is pinned: forget the pin id, pull again.
    UNPIN = enum.auto()
    #: No more messages will arrive.
    END = enum.auto()


class OnPush(enum.Enum):
    """The effect of a status on a push subscription. It follows from the effect on a consume."""

    #: A heartbeat or a flow control request.
    HEARTBEAT = enum.auto()
    #: It is about a pull request: ignored.
    IGNORE = enum.auto()
    #: The error is reported; messages may still arrive.
    REPORT = enum.auto()
    #: No more messages will arrive.
    END = enum.auto()


_ON_PUSH: Final = {
    OnConsume.CONTINUE: OnPush.HEARTBEAT,
    OnConsume.PULL: OnPush.IGNORE,
    OnConsume.TOO_LARGE: OnPush.IGNORE,
    OnConsume.END: OnPush.END,
}


class OnDirectGet(enum.Enum):
    """The effect of a status on a direct get, and on a backup."""

    #: The batch, or the archive, is complete.
    END = enum.auto()
    #: No message, or no further message, matches.
    NOT_FOUND = enum.auto()
    ERROR = enum.auto()


class Exceeded(NamedTuple):
    """A limit of the consumer that a pull request exceeded."""

    #: The field of the request: `batch`, `expires` or `max_bytes`.
    field: str
    #: The limit, in seconds for `expires`; None when the server does not name it.
    limit: float | None


class _Row(NamedTuple):
    code: int
    text: str
    error: type[StatusError | NoResponders]
    on_fetch: OnFetch
    on_consume: OnConsume
    hint: str | None = None
    on_direct_get: OnDirectGet = OnDirectGet.ERROR


_SILENT = StatusError  # never raised: these are not errors

# The hints of the rows.
_CREATE_AGAIN = "Create it again; one without durable_name is deleted after `inactive_threshold` without use"
_SUBSCRIBE = "Use js.subscribe(...)"
_PULL_AGAIN = "Pull again"
_ASK_LESS = "Ask for less, or raise max_batch, max_expires, max_bytes or max_waiting of the consumer"
_NEWER_SERVER = "Update the server: its JetStream API is older than the request requires"
_TOO_MANY = "Too many subjects match: at most 1024 are read at a time. Ask for fewer of them"
_CHECK_NAMES = "Check the names, `domain`, and whether the cluster has a leader"

_TABLE: Final = (
    _Row(100, "", _SILENT, OnFetch.CONTINUE, OnConsume.CONTINUE),
    _Row(204, "", StatusError, OnFetch.ERROR, OnConsume.BACK_OFF, None, OnDirectGet.END),
    # ADR-37 ends a consume for a deleted and a push consumer alone. A bad request ends it here too, as in the
    # Go client: every request of a consume has the same options, so the server would refuse all of them.
    _Row(400, "", BadRequest, OnFetch.ERROR, OnConsume.END),
    _Row(404, "", _SILENT, OnFetch.END, OnConsume.PULL, None, OnDirectGet.NOT_FOUND),
    # For a pull this is the end of its time; for a direct get, a request that the server does not take.
    _Row(408, "", _SILENT, OnFetch.EXPIRED, OnConsume.PULL),
    _Row(409, "message size exceeds maxbytes", _SILENT, OnFetch.END, OnConsume.TOO_LARGE),
    _Row(409, "batch completed", _SILENT, OnFetch.END, OnConsume.PULL),
    _Row(409, "consumer deleted", ConsumerDeleted, OnFetch.ERROR, OnConsume.END, _CREATE_AGAIN),
    _Row(409, "consumer is push based", ConsumerIsPush, OnFetch.ERROR, OnConsume.END, _SUBSCRIBE),
    _Row(409, "leadership change", LeadershipChanged, OnFetch.ERROR_IF_EMPTY, OnConsume.RESTART, _PULL_AGAIN),
    _Row(409, "server shutdown", ServerShutdown, OnFetch.ERROR_IF_EMPTY, OnConsume.RESTART, _PULL_AGAIN),
    _Row(409, "exceeded", ExceededLimit, OnFetch.ERROR, OnConsume.BACK_OFF, _ASK_LESS),
    # The API of this server is too old. While a cluster is upgraded, the next leader may be newer.
    _Row(412, "", StatusError, OnFetch.ERROR, OnConsume.BACK_OFF, _NEWER_SERVER),
    _Row(413, "", StatusError, OnFetch.ERROR, OnConsume.BACK_OFF, _TOO_MANY),
    _Row(423, "", PinIdMismatch, OnFetch.UNPIN, OnConsume.UNPIN),
    _Row(503, "", NoResponders, OnFetch.ERROR, OnConsume.BACK_OFF, _CHECK_NAMES),
)


class Status(NamedTuple):
    """A status line and its consequences."""

    code: int
    description: str
    on_fetch: OnFetch
    on_consume: OnConsume
    #: The error to raise or to report.
    error: Error
    #: The rest of the request when it ended, if the server says so.
    pending_messages: int | None
    pending_bytes: int | None
    #: The last delivery of a push consumer, in its heartbeats: the consumer's sequence and the stream's.
    last_consumer: int | None = None
    last_stream: int | None = None
    #: The flow control subject that a stalled push consumer waits for, in its heartbeats.
    stalled: str | None = None
    on_direct_get: OnDirectGet = OnDirectGet.ERROR
    #: The limit of the consumer for which it refused the request, if that is the reason.
    exceeded: Exceeded | None = None

    @property
    def on_push(self) -> OnPush:
        return _ON_PUSH.get(self.on_consume, OnPush.REPORT)

    def fetch_error(self, received: int) -> Error | None:
        """The error that ends a fetch with so many messages; None when this status is not an error for it."""
        if self.on_fetch is OnFetch.ERROR or (self.on_fetch is OnFetch.ERROR_IF_EMPTY and not received):
            return self.error
        return None


def is_status(frame: MsgFrame) -> bool:
    """Whether the server wrote this frame as a status. A payload or a reply makes it a message.

    Any client may publish a status line into a stream; stored messages have a reply to acknowledge them.
    """
    return not frame.data and not frame.reply and has_status(frame.header)


def classify(header: bytes) -> Status:
    """The meaning of the status in a header block. Raises `RemoteProtocolError` for an invalid block."""
    status, description = parse_status(header)
    code = status or 0
    headers = Headers.parse(header)
    pending = _number(headers.get("Nats-Pending-Messages")), _number(headers.get("Nats-Pending-Bytes"))
    lower = description.lower()
    unknown = _Row(code, "", StatusError, OnFetch.ERROR, OnConsume.BACK_OFF)
    row = next((row for row in _TABLE if row.code == code and row.text in lower), unknown)
    error: Error
    if issubclass(row.error, StatusError):
        error = row.error(status=code, description=description, hint=row.hint)
    else:
        error = row.error("no consumer answers: it is deleted, or has no leader now", hint=row.hint)
    last = _number(headers.get("Nats-Last-Consumer")), _number(headers.get("Nats-Last-Stream"))
    stalled = headers.get("Nats-Consumer-Stalled")
    return Status(
        code,
        description,
        row.on_fetch,
        row.on_consume,
        error,
        *pending,
        *last,
        stalled,
        row.on_direct_get,
        _exceeded(lower) if row.error is ExceededLimit else None,
    )


#: "Exceeded MaxRequestBatch of 100", "... MaxRequestExpires of 1m30s", "... MaxRequestMaxBytes of 1024".
_EXCEEDED: Final = re.compile(r"exceeded maxrequest(batch|expires|maxbytes)(?: of (\S{1,40}))?")
_FIELDS: Final = {"batch": "batch", "expires": "expires", "maxbytes": "max_bytes"}
#: The parts of a duration as Go writes it.
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s|us|µs|ns)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _exceeded(description: str) -> Exceeded | None:
    found = _EXCEEDED.search(description)
    if found is None:
        return None
    field, text = _FIELDS[found[1]], (found[2] or "").rstrip(",.;")
    if field != "expires":
        return Exceeded(field, _number(text))
    parts = _DURATION.findall(text)
    whole = "".join(number + unit for number, unit in parts) == text
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return Exceeded(field, seconds if whole and seconds else None)


def _number(text: str | None) -> int | None:
    # A number of 64 bits has at most 20 digits.
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 20 else None
