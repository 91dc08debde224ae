"""From the server's error numbers to exceptions that say what to do."""

from __future__ import annotations

import pickle

import pytest

from jetspark import errors
from jetspark.errors import APIError, JetStreamError, RemoteProtocolError, StatusError, WrongLastSequence
from jetspark.jetstream.model.requests import PubAck, is_from_stream, parse_pub_ack
from tests.support.cases import for_each


@for_each(
    ("err_code", "description", "cls"),
    [
        (10059, "stream not found", errors.StreamNotFound),
        (10014, "consumer not found", errors.ConsumerNotFound),
        (10149, "consumer does not exist", errors.ConsumerNotFound),
        (10037, "no message found", errors.MessageNotFound),
        (10057, "stream store EOF", errors.MessageNotFound),
        (10057, "no message found", errors.MessageNotFound),
        (10058, "stream name already in use with a different configuration", errors.StreamNameInUse),
        (10065, "subjects overlap with an existing stream", errors.StreamSubjectOverlap),
        (10148, "consumer already exists", errors.ConsumerNameInUse),
        (10013, "consumer name already in use", errors.ConsumerNameInUse),
        (10071, "wrong last sequence: 5", errors.WrongLastSequence),
        (10164, "wrong last sequence", errors.WrongLastSequence),
        (10070, "wrong last msg ID: x", errors.WrongLastMsgId),
        (10077, "maximum messages exceeded", errors.StreamFull),
        (10077, "maximum bytes exceeded", errors.StreamFull),
        (10077, "maximum messages per subject exceeded", errors.StreamFull),
        (10109, "invalid operation on sealed stream", errors.StreamSealed),
        (10023, "insufficient resources", errors.InsufficientResources),
        (10047, "insufficient storage resources available", errors.InsufficientResources),
        (10174, "atomic publish is disabled", errors.BatchPublishError),
        (10176, "atomic publish batch is incomplete", errors.BatchPublishError),
        (10167, "too many requests", errors.TooManyRequests),
        (10008, "JetStream system temporarily unavailable", errors.JetStreamUnavailable),
        (10076, "JetStream not enabled", errors.JetStreamNotEnabled),
        (10039, "JetStream not enabled for account", errors.JetStreamNotEnabledForAccount),
    ],
)
def test_common_errors_have_a_class(err_code: int, description: str, cls: type[APIError]) -> None:
    error = APIError.from_wire({"code": 400, "err_code": err_code, "description": description})
    assert type(error) is cls
    assert (error.code, error.err_code, error.description) == (400, err_code, description)
    assert str(error).startswith(f"{description} ({err_code})")


@for_each(
    ("err_code", "description"),
    [
        (10052, "invalid subject"),
        (10077, "no space left on device"),
        (10057, "message can not be deleted"),
        (19999, "an error of 2030"),
    ],
)
def test_all_others_are_plain_api_errors_without_a_hint(err_code: int, description: str) -> None:
    error = APIError.from_wire({"code": 500, "err_code": err_code, "description": description})
    assert type(error) is APIError
    assert error.hint is None
    assert str(error) == f"{description} ({err_code})"


def test_the_message_names_what_was_asked_for_and_what_to_do() -> None:
    missing = {"code": 404, "err_code": 10059, "description": "stream not found"}
    assert str(APIError.from_wire(missing, stream="ORDERS")) == (
        "stream ORDERS not found (10059). "
        "Create it with js.create_stream(...), or check `domain` and the account"
    )
    assert str(APIError.from_wire(missing, stream="ORDERS", consumer="w")).startswith(
        "stream ORDERS not found"
    )
    missing = {"code": 404, "err_code": 10014, "description": "consumer not found"}
    error = APIError.from_wire(missing, stream="ORDERS", consumer="worker")
    assert str(error).startswith("consumer worker of stream ORDERS not found (10014). Create it with")
    assert (error.stream, error.consumer) == ("ORDERS", "worker")
    assert str(APIError.from_wire(missing, stream="ORDERS")).startswith(
        "stream ORDERS: consumer not found (10014)"
    )


def test_other_messages_say_where_it_happened() -> None:
    refused = {"code": 500, "err_code": 10012, "description": "ack policy can not be updated"}
    assert str(APIError.from_wire(refused, stream="ORDERS", consumer="w")) == (
        "consumer w of stream ORDERS: ack policy can not be updated (10012)"
    )


def test_an_error_object_with_nothing_in_it_is_still_an_error() -> None:
    assert str(APIError.from_wire({})) == "unknown error (0)"
    assert str(APIError.from_wire({"code": 503})) == "unknown error (503)"


def test_a_wrong_last_sequence_knows_the_right_one() -> None:
    right = APIError.from_wire({"code": 400, "err_code": 10071, "description": "wrong last sequence: 5"})
    silent = APIError.from_wire({"code": 400, "err_code": 10164, "description": "wrong last sequence"})
    assert isinstance(right, WrongLastSequence)
    assert isinstance(silent, WrongLastSequence)
    assert (right.last_sequence, silent.last_sequence) == (5, None)


def test_a_picked_error_survives_pickling() -> None:
    error = APIError.from_wire(
        {"code": 404, "err_code": 10059, "description": "stream not found"}, stream="ORDERS"
    )
    restored = pickle.loads(pickle.dumps(error))
    assert (type(restored), str(restored), vars(restored)) == (type(error), str(error), vars(error))


@for_each("name", ["BadRequest", "ConsumerDeleted", "LeadershipChanged", "PinIdMismatch"])
def test_a_status_becomes_the_message(name: str) -> None:
    error = getattr(errors, name)(status=409, description="Consumer Deleted")
    assert isinstance(error, StatusError)
    assert isinstance(error, JetStreamError)
    assert (str(error), error.status) == ("409 Consumer Deleted", 409)


def test_a_publish_acknowledgement_is_read() -> None:
    ack = parse_pub_ack(b'{"stream":"ORDERS","seq":7,"duplicate":true,"of_2030":1}')
    assert ack == PubAck(stream="ORDERS", sequence=7, duplicate=True)


def test_a_publish_that_was_refused_raises() -> None:
    data = (
        b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"T","seq":0}'
    )
    with pytest.raises(WrongLastSequence, match=r"^stream T: wrong last sequence: 5 \(10071\)$"):
        parse_pub_ack(data)
    assert is_from_stream(data)


@for_each(
    "data",
    [
        b"",
        b"+OK",
        b"{}",
        b'{"stream":"T"}',
        b'{"error"',
        b'["error"]',
        b"\xff",
        b'{"error":"x"}',
        b'{"error":{"code":400,"err_code":10071,"description":"names no stream"}}',
        b'{"stream":"T","error":"x"}',
        b'{"stream":"T","error":{"code":"x"}}',
        b'{"stream":"","seq":1}',
        b'{"stream":"T","seq":-1}',
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
)
def test_an_answer_that_is_no_acknowledgement_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_pub_ack(data)
    assert not is_from_stream(data)
