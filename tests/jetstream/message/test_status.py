"""What every status line means: the rows of the table, from the lines that servers send."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from jetspark.errors import (
    BadRequest,
    ConsumerDeleted,
    ConsumerIsPush,
    Error,
    ExceededLimit,
    LeadershipChanged,
    NoResponders,
    PinIdMismatch,
    RemoteProtocolError,
    ServerShutdown,
    StatusError,
)
from jetspark.jetstream.message.status import (
    Exceeded,
    OnConsume,
    OnDirectGet,
    OnFetch,
    OnPush,
    classify,
    is_status,
)
from jetspark.wire import MsgFrame
from tests.support.cases import for_each

ROWS: list[tuple[str, OnFetch, OnConsume, type[Error]]] = [
    ("100 Idle Heartbeat", OnFetch.CONTINUE, OnConsume.CONTINUE, StatusError),
    ("100 FlowControl Request", OnFetch.CONTINUE, OnConsume.CONTINUE, StatusError),
    ("400 Bad Request", OnFetch.ERROR, OnConsume.END, BadRequest),
    ("400 Bad Request - heartbeat value too large", OnFetch.ERROR, OnConsume.END, BadRequest),
    ("400 Bad Request - Priority Group missing", OnFetch.ERROR, OnConsume.END, BadRequest),
    ("404 No Messages", OnFetch.END, OnConsume.PULL, StatusError),
    ("408 Request Timeout", OnFetch.EXPIRED, OnConsume.PULL, StatusError),
    ("408 Requests Pending", OnFetch.EXPIRED, OnConsume.PULL, StatusError),
    ("408 Interest Expired", OnFetch.EXPIRED, OnConsume.PULL, StatusError),
    ("409 Message Size Exceeds MaxBytes", OnFetch.END, OnConsume.TOO_LARGE, StatusError),
    ("409 Batch Completed", OnFetch.END, OnConsume.PULL, StatusError),
    ("409 Consumer Deleted", OnFetch.ERROR, OnConsume.END, ConsumerDeleted),
    ("409 Consumer is push based", OnFetch.ERROR, OnConsume.END, ConsumerIsPush),
    ("409 Leadership Change", OnFetch.ERROR_IF_EMPTY, OnConsume.RESTART, LeadershipChanged),
    ("409 Server Shutdown", OnFetch.ERROR_IF_EMPTY, OnConsume.RESTART, ServerShutdown),
    ("409 Exceeded MaxRequestBatch of 10", OnFetch.ERROR, OnConsume.BACK_OFF, ExceededLimit),
    ("409 Exceeded MaxRequestExpires of 1s", OnFetch.ERROR, OnConsume.BACK_OFF, ExceededLimit),
    ("409 Exceeded MaxRequestMaxBytes of 1024", OnFetch.ERROR, OnConsume.BACK_OFF, ExceededLimit),
    ("409 Exceeded MaxWaiting", OnFetch.ERROR, OnConsume.BACK_OFF, ExceededLimit),
    ("412 Required Api Level", OnFetch.ERROR, OnConsume.BACK_OFF, StatusError),
    ("423 Nats-Wrong-Pin-Id", OnFetch.UNPIN, OnConsume.UNPIN, PinIdMismatch),
    ("423 Nats-Pin-Id mismatch", OnFetch.UNPIN, OnConsume.UNPIN, PinIdMismatch),
    ("503", OnFetch.ERROR, OnConsume.BACK_OFF, NoResponders),
    ("503 No Responders", OnFetch.ERROR, OnConsume.BACK_OFF, NoResponders),
    ("409 Something New", OnFetch.ERROR, OnConsume.BACK_OFF, StatusError),
    ("499 Something Newer", OnFetch.ERROR, OnConsume.BACK_OFF, StatusError),
    ("409", OnFetch.ERROR, OnConsume.BACK_OFF, StatusError),
]
IDS = [row[0] for row in ROWS]


def block(line: str, **headers: str) -> bytes:
    lines = [f"NATS/1.0 {line}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@for_each(
    ("line", "on_push"),
    [
        ("100 Idle Heartbeat", OnPush.HEARTBEAT),
        ("100 FlowControl Request", OnPush.HEARTBEAT),
        ("404 No Messages", OnPush.IGNORE),
        ("408 Request Timeout", OnPush.IGNORE),
        ("409 Message Size Exceeds MaxBytes", OnPush.IGNORE),
        ("409 Leadership Change", OnPush.REPORT),
        ("409 Exceeded MaxWaiting", OnPush.REPORT),
        ("499 Something Newer", OnPush.REPORT),
        ("409 Consumer Deleted", OnPush.END),
        ("400 Bad Request", OnPush.END),
    ],
)
def test_a_push_subscription_ignores_what_is_about_pull_requests(line: str, on_push: OnPush) -> None:
    assert classify(block(line)).on_push is on_push


@for_each(("line", "on_fetch", "on_consume", "error"), ROWS, ids=IDS)
def test_every_status_line_has_its_row(
    line: str, on_fetch: OnFetch, on_consume: OnConsume, error: type[Error]
) -> None:
    status = classify(block(line))
    assert (status.on_fetch, status.on_consume) == (on_fetch, on_consume)
    assert type(status.error) is error
    assert status.code == int(line[:3])
    assert status.description == line[4:]


@for_each(("line", "on_fetch", "on_consume", "error"), ROWS, ids=IDS)
@for_each("change", [str.upper, str.lower, str.swapcase])
def test_case_makes_no_difference(
    line: str, on_fetch: OnFetch, on_consume: OnConsume, error: type[Error], change: Callable[[str], str]
) -> None:
    status = classify(block(change(line)))
    assert (status.on_fetch, status.on_consume, type(status.error)) == (on_fetch, on_consume, error)


@for_each(("line", "on_fetch", "on_consume", "error"), ROWS, ids=IDS)
def test_what_stands_around_the_text_makes_no_difference(
    line: str, on_fetch: OnFetch, on_consume: OnConsume, error: type[Error]
) -> None:
    status = classify(block(f"{line[:3]} the server says: {line[4:]}, of server n1"))
    assert (status.on_fetch, status.on_consume, type(status.error)) == (on_fetch, on_consume, error)


@for_each("line", [line for line, *_, error in ROWS if issubclass(error, StatusError)])
def test_the_error_carries_what_the_server_said(line: str) -> None:
    error = classify(block(line)).error
    assert isinstance(error, StatusError)
    assert (error.status, error.description) == (int(line[:3]), line[4:])
    assert str(error).startswith(line)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.status, copied.hint) == (type(error), error.status, error.hint)


@for_each("line", ["409 Consumer Deleted", "409 Consumer is push based", "409 Exceeded MaxWaiting", "503"])
def test_where_the_user_can_act_there_is_a_hint(line: str) -> None:
    assert classify(block(line)).error.hint


def test_what_the_request_had_left_is_read_from_the_headers() -> None:
    status = classify(block("408 Request Timeout", Nats_Pending_Messages="7", Nats_Pending_Bytes="4096"))
    assert (status.pending_messages, status.pending_bytes) == (7, 4096)
    status = classify(block("408 Request Timeout", nats_pending_messages="0", NATS_PENDING_BYTES="0"))
    assert (status.pending_messages, status.pending_bytes) == (0, 0)


def test_without_the_headers_nothing_is_known_of_what_was_left() -> None:
    status = classify(block("409 Leadership Change"))
    assert (status.pending_messages, status.pending_bytes) == (None, None)


@for_each("number", ["", " ", "-1", "1.5", "0x10", "many", "١٢", "1_000", "9" * 5000])
def test_a_number_that_is_none_is_taken_as_not_said(number: str) -> None:
    status = classify(block("408 Request Timeout", Nats_Pending_Messages=number, Nats_Pending_Bytes=number))
    assert (status.pending_messages, status.pending_bytes) == (None, None)
    assert status.on_consume is OnConsume.PULL


@for_each("line", ["4O8 Request Timeout", "-408", "Request Timeout", "9" * 5000])
def test_a_status_that_is_no_number_is_a_protocol_error(line: str) -> None:
    with pytest.raises(RemoteProtocolError):
        classify(block(line))


def frame(header: bytes, *, data: bytes = b"", reply: bytes = b"") -> MsgFrame:
    return MsgFrame(b"1", b"_INBOX.a.1", reply, header, data)


def test_a_status_is_a_status_line_without_a_payload() -> None:
    assert is_status(frame(block("408 Request Timeout")))


@pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nStatus: 408\r\n\r\n"])
def test_headers_without_a_payload_are_no_status(header: bytes) -> None:
    assert not is_status(frame(header))


def test_a_payload_makes_it_a_message_of_a_user() -> None:
    assert not is_status(frame(block("409 Consumer Deleted"), data=b"x"))


def test_what_can_be_acknowledged_is_a_message_of_a_user() -> None:
    # Anybody may publish such a header block into a stream; it must not end the consumers of it.
    reply = b"$JS.ACK.S.C.1.1.1.1700000000000000000.0"
    assert not is_status(frame(block("409 Consumer Deleted"), reply=reply))


@for_each(
    ("line", "outcome"),
    [
        ("204 EOB", OnDirectGet.END),
        ("404 No Results", OnDirectGet.NOT_FOUND),
        ("404 Message Not Found", OnDirectGet.NOT_FOUND),
        ("408 Empty Request", OnDirectGet.ERROR),
        ("413 Too Many Results", OnDirectGet.ERROR),
        ("499 Something Newer", OnDirectGet.ERROR),
    ],
)
def test_what_a_status_means_for_a_direct_get(line: str, outcome: OnDirectGet) -> None:
    assert classify(block(line)).on_direct_get is outcome


@for_each(
    ("line", "exceeded"),
    [
        ("409 Exceeded MaxRequestBatch of 100", Exceeded("batch", 100)),
        ("409 Exceeded MaxRequestMaxBytes of 1024", Exceeded("max_bytes", 1024)),
        ("409 Exceeded MaxRequestExpires of 2s", Exceeded("expires", 2.0)),
        ("409 Exceeded MaxRequestExpires of 1h1m1.5s", Exceeded("expires", 3661.5)),
        ("409 Exceeded MaxRequestExpires of 250ms", Exceeded("expires", 0.25)),
        ("409 EXCEEDED MAXREQUESTBATCH OF 7, of server n1", Exceeded("batch", 7)),
        ("409 Exceeded MaxRequestBatch", Exceeded("batch", None)),
        ("409 Exceeded MaxRequestBatch of many", Exceeded("batch", None)),
        ("409 Exceeded MaxRequestBatch of -1", Exceeded("batch", None)),
        ("409 Exceeded MaxRequestExpires of 10", Exceeded("expires", None)),
        ("409 Exceeded MaxRequestExpires of 2s or so", Exceeded("expires", 2.0)),
        ("409 Exceeded MaxRequestExpires of 2x3s", Exceeded("expires", None)),
        ("409 Exceeded MaxWaiting", None),
        ("408 Request Timeout", None),
    ],
)
def test_a_refusal_says_which_limit_was_exceeded(line: str, exceeded: Exceeded | None) -> None:
    assert classify(block(line)).exceeded == exceeded
