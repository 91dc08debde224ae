"""Models on the wire: nothing is lost, nothing is sent that need not be, units are converted once."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
import types
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetspark.errors import RemoteProtocolError, UsageError
from jetspark.jetstream.model import advisories as advisory_events
from jetspark.jetstream.model import consumer as consumer_config
from jetspark.jetstream.model import info, requests
from jetspark.jetstream.model import stream as stream_config
from jetspark.jetstream.model.base import Duration, Int32, Model, UInt, from_ns, to_ns
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.model.info import AccountInfo, ConsumerInfo, StreamInfo, StreamState
from jetspark.jetstream.model.requests import MsgGetRequest, PauseResponse, PubAck, PullRequest, StoredMsg
from jetspark.jetstream.model.stream import (
    Placement,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamConsumerLimits,
    StreamSource,
)
from tests.support.cases import for_each
from tests.support.untyped import untyped

MODULES = (stream_config, consumer_config, info, requests, advisory_events)
MODELS = sorted(
    {
        cls
        for module in MODULES
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, Model) and cls is not Model
    },
    key=lambda cls: cls.__name__,
)
every_model = pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)

texts = st.text(max_size=8)
nanoseconds = st.integers(-(10**14), 10**14)
timestamps = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)).map(
    lambda naive: naive.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
)


def wire_values(annotation: Any) -> st.SearchStrategy[Any]:
    """What the server may send for a field of this type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Duration:
        return nanoseconds
    if origin is Annotated or annotation in (UInt, Int32):
        return st.integers(0, 2**31 - 1)
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member not in (type(None), str)]
        return wire_values(members[0] if members else str)
    if origin is list:
        return st.lists(wire_values(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(texts, wire_values(arguments[1]), max_size=2)
    if annotation is Any:
        return st.integers()
    if issubclass(annotation, enum.StrEnum):
        return st.sampled_from([*map(str, annotation), "policy_of_2030"])
    if issubclass(annotation, Model):
        return wire_objects(annotation)
    plain: dict[type, st.SearchStrategy[Any]] = {
        str: texts,
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**63 - 1),
        bytes: st.sampled_from(["", "aGk=", "AAEC/w=="]),
        datetime: timestamps,
    }
    return plain[annotation]


def wire_objects(cls: type[Model]) -> st.SearchStrategy[dict[str, Any]]:
    """What the server may send for a model: a required field always, any other sometimes."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(cls):
        if field.name != "extra":
            (required if field.required else optional)[field.encode_name] = wire_values(field.type)
    optional |= {"of_2030": st.integers(), "nested_of_2030": st.just({"deep": [1, None]})}
    return st.fixed_dictionaries(required, optional=optional)


def unknown_fields(wire: dict[str, Any]) -> list[dict[str, Any]]:
    """Each object in `wire` that has fields of 2030, reduced to them."""
    found = [{key: value for key, value in wire.items() if key.endswith("_2030")}]
    for value in wire.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                found += unknown_fields(each)
    return [each for each in found if each]


@every_model
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=30)
@given(data=st.data())
def test_what_was_read_is_written_and_read_again_without_loss(cls: type[Model], data: st.DataObject) -> None:
    wire = data.draw(wire_objects(cls))
    model = cls.from_wire(wire)
    written = model.to_wire()
    assert cls.from_wire(written) == model
    assert cls.from_json(model.to_json()) == model
    assert sorted(map(str, unknown_fields(written))) == sorted(map(str, unknown_fields(wire)))
    # What is not written has the value that a reader assumes anyway.
    missing = cls.from_wire({**wire, **{key: written.get(key) for key in wire.keys() - written.keys()}})
    assert missing == model


@every_model
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=5)
@given(data=st.data())
def test_models_survive_pickling_and_copying(cls: type[Model], data: st.DataObject) -> None:
    model = cls.from_wire(data.draw(wire_objects(cls)))
    for restored in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert restored == model
        assert restored.to_wire() == model.to_wire()


@for_each("cls", MODELS)
def test_every_model_and_every_field_is_documented(cls: type[Model]) -> None:
    if not cls.__name__.startswith("_"):
        assert cls.__doc__
    if "Attributes:\n" in (cls.__doc__ or ""):
        return  # tests/rules/test_fields.py compares them.
    lines = inspect.getsource(cls).splitlines()
    fields = [n for n, line in enumerate(lines) if line[4:].partition(":")[0] in cls.__annotations__]
    undocumented = [
        lines[n].strip()
        for n in fields
        if "ClassVar" not in lines[n] and not lines[n - 1].strip().startswith("#:")
    ]
    assert undocumented == []


@given(st.integers(0, 48 * 86400 * 10**9))
def test_nanoseconds_up_to_48_days_survive_the_way_through_seconds(ns: int) -> None:
    assert to_ns(from_ns(ns)) == ns


@for_each(
    ("seconds", "ns"),
    [
        (0.1, 100_000_000),
        (0.3, 300_000_000),
        (1.1, 1_100_000_000),
        (30, 30_000_000_000),
        (1e-9, 1),
        (31_536_000.123, 31_536_000_123_000_000),
        (-1.0, -1_000_000_000),
    ],
)
def test_seconds_become_exact_nanoseconds(seconds: float, ns: int) -> None:
    assert to_ns(seconds) == ns


def test_a_minimal_stream_sends_only_what_was_said() -> None:
    config = StreamConfig(name="ORDERS", subjects=["orders.>"])
    assert config.to_wire() == {"name": "ORDERS", "subjects": ["orders.>"]}


def test_a_minimal_consumer_says_explicit_because_the_server_would_take_none() -> None:
    assert ConsumerConfig(name="worker").to_wire() == {"name": "worker", "ack_policy": "explicit"}


def test_durations_are_seconds_here_and_nanoseconds_there() -> None:
    config = ConsumerConfig(ack_wait=1.5, backoff=[0.1, 2])
    assert config.to_wire()["ack_wait"] == 1_500_000_000
    assert config.to_wire()["backoff"] == [100_000_000, 2_000_000_000]
    assert ConsumerConfig.from_wire(config.to_wire()) == config
    assert config.backoff == [0.1, 2.0]


def test_policies_may_be_given_as_plain_text() -> None:
    assert ConsumerConfig(ack_policy="none").ack_policy is AckPolicy.NONE
    assert StreamConfig(name="A", storage="memory") == StreamConfig(name="A", storage=StorageType.MEMORY)


def test_a_policy_of_a_newer_server_is_kept_as_it_is() -> None:
    config = StreamConfig.from_wire({"name": "A", "retention": "forever"})
    assert config.retention == "forever"
    assert config.to_wire()["retention"] == "forever"


def test_unknown_fields_survive_an_update_at_every_depth() -> None:
    wire = {
        "name": "A",
        "max_msgs": -1,
        "shiny": {"new": True},
        "consumer_limits": {"max_waiting": 7},
        "sources": [{"name": "B", "speed": 9}],
    }
    changed = StreamConfig.from_wire(wire).replace(max_msgs=5)
    assert changed.to_wire() == wire | {"max_msgs": 5}


def test_replace_checks_what_the_server_sent_and_structs_replace_does_not() -> None:
    config = StreamConfig.from_wire({"name": "A", "num_replicas": 1})
    with pytest.raises(UsageError, match=r"StreamConfig\.num_replicas=9 is not from 1 to 5"):
        config.replace(num_replicas=9)
    assert msgspec.structs.replace(config, num_replicas=9).num_replicas == 9


def test_replace_tolerates_an_unknown_policy_that_it_does_not_touch() -> None:
    config = StreamConfig.from_wire({"name": "A", "retention": "forever"})
    assert config.replace(max_msgs=5).retention == "forever"
    with pytest.raises(UsageError, match="retention='never'"):
        config.replace(retention="never")


def test_models_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        untyped(StreamConfig(name="A")).max_msgs = 5


def test_a_list_given_to_a_model_is_copied() -> None:
    subjects = ["a"]
    config = StreamConfig(name="A", subjects=subjects)
    subjects.append("not valid")
    assert config.subjects == ["a"]


def test_what_the_server_sent_is_not_checked() -> None:
    assert StreamConfig.from_wire({"name": "a.b", "num_replicas": 99}).num_replicas == 99


@for_each(
    ("field", "value", "accepted"),
    [
        ("subjects", "orders.>", "a list, each text"),
        ("subjects", [1], "a list, each text"),
        ("max_msgs", "5", "an integer"),
        ("max_msgs", True, "an integer"),
        ("max_msgs", 2**63, "an integer"),
        ("max_msg_size", 2**31, "an integer from -2147483648 to 2147483647"),
        ("first_seq", -1, "an integer of 0 or more"),
        ("max_age", "1h", "a number of seconds"),
        ("max_age", float("nan"), "a number of seconds"),
        ("max_age", float("inf"), "a number of seconds"),
        ("max_age", 1e10, "a number of seconds"),
        ("no_ack", 1, "True or False"),
        ("no_ack", None, "True or False"),
        ("metadata", {"a": 1}, "a dict of text, each value text"),
        ("metadata", ["a"], "a dict of text, each value text"),
        ("mirror", {"name": "B"}, "a StreamSource"),
        ("description", b"x", "text"),
        ("retention", "work_queue", "one of 'limits', 'interest', 'workqueue'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_field(field: str, value: Any, accepted: str) -> None:
    with pytest.raises(UsageError) as caught:
        StreamConfig(**{"name": "A", field: value})
    assert f"StreamConfig.{field}=" in str(caught.value)
    assert accepted in str(caught.value)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match=r"opt_start_time=.* must be a datetime with a time zone"):
        StreamSource(name="A", opt_start_time=datetime(2024, 1, 1))


def test_times_are_written_in_utc() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert MsgGetRequest(start_time=noon).to_wire() == {"start_time": "2024-01-01T10:00:00Z"}


def test_a_time_with_nanoseconds_is_written_as_it_was_read() -> None:
    # Else the server takes an update for an attempt to move the start.
    wire = {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00.123456789Z"}
    config = ConsumerConfig.from_wire(wire)
    assert config.opt_start_time == datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    for same in (config.replace(max_deliver=3), pickle.loads(pickle.dumps(config))):
        assert same.to_wire()["opt_start_time"] == wire["opt_start_time"]
    assert config.opt_start_time is not None
    later = config.replace(opt_start_time=config.opt_start_time + timedelta(seconds=1))
    assert later.to_wire()["opt_start_time"] == "2024-01-01T00:00:01.123456Z"
    assert repr(config.opt_start_time) == repr(datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC))


def test_the_zero_time_of_the_server_is_none() -> None:
    state = StreamState.from_wire({"messages": 0, "first_ts": "0001-01-01T00:00:00Z"})
    assert state.first_ts is None
    assert (
        PauseResponse.from_wire({"paused": False, "pause_until": "0001-01-01T00:00:00Z"}).pause_until is None
    )


def test_null_is_the_same_as_nothing() -> None:
    assert StreamState.from_wire({"deleted": None, "subjects": None}) == StreamState()


def test_the_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(StreamConfig(name="A", max_msgs=5)) == "StreamConfig(name='A', max_msgs=5)"
    assert repr(StreamConfig.from_wire({"name": "A"})) == "StreamConfig(name='A')"
    assert repr(StreamConfig.from_wire({"name": "A", "x": 1})) == "StreamConfig(name='A', extra={'x': 1})"


@for_each("data", [b"", b"[]", b"nonsense", b"{}", b'{"name": 5}', b'{"name":"A","max_age":"1h"}'])
def test_json_that_is_no_such_model_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        StreamConfig.from_json(data)


STREAM_INFO = (
    b'{"type":"io.nats.jetstream.api.v1.stream_create_response","config":{"name":"S1","subjects":["s1.>"],'
    b'"retention":"workqueue","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,'
    b'"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,'
    b'"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,'
    b'"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},'
    b'"allow_msg_ttl":false,"metadata":{"_nats.level":"5"}},"created":"2026-11-15T10:09:52.492599697Z",'
    b'"state":{"messages":4,"bytes":140,"first_seq":1,"first_ts":"2026-11-15T10:17:42.583514238Z",'
    b'"last_seq":5,"last_ts":"2026-11-15T10:17:42.584986925Z","num_subjects":1,"subjects":{"t.x":4},'
    b'"num_deleted":1,"deleted":[2],"consumer_count":1},"cluster":{"leader":"n1"},'
    b'"ts":"2026-11-15T10:09:52.493351543Z","did_create":true,"total":1,"offset":0,"limit":100000}'
)


def test_a_stream_info_of_server_2_15_is_read_completely() -> None:
    read = StreamInfo.from_json(STREAM_INFO)
    assert read.extra == {}
    assert read.config.retention is RetentionPolicy.WORKQUEUE
    assert read.config.duplicate_window == 120.0
    assert read.config.consumer_limits == StreamConsumerLimits()
    assert (read.state.messages, read.state.deleted, read.state.subjects) == (4, [2], {"t.x": 4})
    assert read.did_create
    assert read.cluster is not None
    assert read.cluster.leader == "n1"


CONSUMER_INFO = (
    b'{"type":"io.nats.jetstream.api.v1.consumer_info_response","stream_name":"T","name":"c",'
    b'"created":"2026-11-15T10:17:42.594926432Z","config":{"durable_name":"c","name":"c",'
    b'"deliver_policy":"all","ack_policy":"none","ack_wait":30000000000,"max_deliver":-1,'
    b'"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0},'
    b'"delivered":{"consumer_seq":3,"stream_seq":5,"last_active":"2026-11-15T10:17:42.5Z"},'
    b'"ack_floor":{"consumer_seq":0,"stream_seq":0},"num_ack_pending":2,"num_redelivered":0,'
    b'"num_waiting":1,"num_pending":4,"paused":true,"pause_remaining":1500000000,'
    b'"priority_groups":[{"group":"g","pinned_ts":"0001-01-01T00:00:00Z"}],'
    b'"ts":"2026-11-15T10:17:42.59839376Z"}'
)


def test_a_consumer_info_of_server_2_15_is_read_completely() -> None:
    read = ConsumerInfo.from_json(CONSUMER_INFO)
    assert read.extra == {}
    assert read.config.ack_policy is AckPolicy.NONE
    assert read.delivered.stream_seq == 5
    assert read.pause_remaining == 1.5
    assert read.priority_groups[0].pinned_ts is None


def test_an_account_info_has_limits_tiers_and_api_statistics() -> None:
    read = AccountInfo.from_wire(
        {
            "type": "io.nats.jetstream.api.v1.account_info_response",
            "streams": 3,
            "limits": {"max_streams": 10},
            "api": {"level": 5, "total": 478, "errors": 164},
            "tiers": {"R3": {"storage": 7, "limits": {"max_storage": 8}}},
        }
    )
    assert read.extra == {}
    assert (read.streams, read.limits.max_streams, read.api.level) == (3, 10, 5)
    assert (read.tiers["R3"].storage, read.tiers["R3"].limits.max_storage) == (7, 8)


def test_the_usages_of_an_account_are_those_of_its_tiers() -> None:
    document = {"storage": 7, "limits": {"max_storage": 0}}
    tier = {"storage": 7, "limits": {"max_storage": 8}}
    (storage, *rest) = AccountInfo.from_wire({**document, "tiers": {"R3": tier}}).usages()
    assert (storage, storage.share) == (("R3", "storage", 7, 8), 7 / 8)
    assert [(each.resource, each.share) for each in rest] == [
        ("memory", 0),
        ("streams", 0),
        ("consumers", 0),
    ]
    (storage, *_) = AccountInfo.from_wire(document).usages()
    assert (storage, storage.share) == (("", "storage", 7, 0), 0)


def test_a_stored_message_is_decoded_from_base64() -> None:
    read = StoredMsg.from_wire(
        {"subject": "t.x", "seq": 2, "hdrs": "TkFUUw==", "data": "aGk=", "time": "2026-11-15T10:17:42Z"}
    )
    assert (read.sequence, read.hdrs, read.data) == (2, b"NATS", b"hi")


def test_a_pull_request_is_small() -> None:
    request = PullRequest(batch=500, expires=5, idle_heartbeat=2.5)
    assert request.to_json() == b'{"batch":500,"expires":5000000000,"idle_heartbeat":2500000000}'


@for_each(
    ("values", "field"),
    [
        ({"expires": -1}, "expires"),
        ({"expires": 1, "idle_heartbeat": 0.6}, "idle_heartbeat"),
        ({"idle_heartbeat": 0.6}, "idle_heartbeat"),
        ({"batch": -1}, "batch"),
        ({"priority": 10}, "priority"),
    ],
)
def test_a_pull_request_that_the_server_would_refuse(values: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError, match=rf"PullRequest\.{field}="):
        PullRequest(**values)


def test_an_acknowledgement_of_a_batch_names_it() -> None:
    read = PubAck.from_json(b'{"stream":"BB","seq":1,"batch":"y","count":3,"val":"7","duplicate":true}')
    assert read == PubAck(stream="BB", sequence=1, batch_id="y", batch_size=3, value="7", duplicate=True)


def test_placement_is_written_without_what_is_not_set() -> None:
    assert Placement(tags=["ssd"]).to_wire() == {"tags": ["ssd"]}
