"""Every public function that takes text refuses other values, and text that cannot be sent, as `UsageError`.

The functions and their parameters are read from the signatures, so that a new one needs no line here.
"""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

import jetspark
from jetspark import (
    ConsumerConfig,
    Error,
    Headers,
    KeyValueConfig,
    ObjectInfo,
    ObjectMeta,
    ObjectStoreConfig,
    PubAck,
    StreamConfig,
    UsageError,
    blocking,
)
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.kv import config as kv_models
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model import consumer as consumer_models
from jetspark.jetstream.model import requests as request_models
from jetspark.jetstream.model import stream as stream_models
from jetspark.jetstream.model.base import Model
from jetspark.jetstream.objects import config as object_models
from jetspark.jetstream.publish.headers import Expectations
from jetspark.jetstream.pull.options import PullKeywords
from jetspark.jetstream.push.options import PushKeywords
from jetspark.server import Server, User
from tests.rules.test_parity import PAIRS, shared
from tests.support.cases import for_each

#: Never valid where text is expected.
NOT_TEXT = ["a\ud800", b"a", 7, {7: 1}, object()]
#: Text that some functions accept. If not, the error is one of ours.
ODD_TEXT = ["a\udcff", "a\0b", "a" * 5000, "ab\r\nPUB x 0"]

KEYWORDS: dict[str, type] = {each.__name__: each for each in (Expectations, PullKeywords, PushKeywords)}


class Parameter(NamedTuple):
    """A parameter that takes text, or several texts."""

    function: str
    name: str
    several: bool

    def refused(self) -> list[object]:
        return [*NOT_TEXT, ["a\ud800"] if self.several else ["a"], [7]]


def text_parameters(function: Any, name: str) -> Iterator[Parameter]:
    for parameter in inspect.signature(function).parameters.values():
        annotation = str(parameter.annotation)
        if found := re.match(r"Unpack\[(\w+)\]", annotation):
            for keyword, hint in KEYWORDS[found[1]].__annotations__.items():
                if takes_text(str(hint)):
                    yield Parameter(name, keyword, "Sequence" in str(hint))
        elif takes_text(annotation):
            yield Parameter(name, parameter.name, re.search("Iterable|Sequence", annotation) is not None)


def takes_text(annotation: str) -> bool:
    return re.search(r"\b(str|HeadersLike|Secret|Path)\b", annotation) is not None


def parameters_of(cls: type) -> list[Parameter]:
    """The text parameters of an asynchronous class, without those that only the layers above use."""
    names = [name for asynchronous, _, name in shared() if asynchronous is cls]
    functions = [(name, member) for name in names if inspect.isfunction(member := getattr(cls, name))]
    return [parameter for name, member in functions for parameter in text_parameters(member, name)]


CLASSES = [cls for cls in PAIRS if parameters_of(cls)]


@pytest.fixture
def name() -> str:
    return f"T{secrets.token_hex(6)}"


def valid(name: str, function: str) -> dict[str, object]:
    """Arguments for the parameters that are required."""
    configs = {
        "stream": StreamConfig(name=name),
        "value": KeyValueConfig(bucket=name),
        "store": ObjectStoreConfig(bucket=name),
    }
    return {
        "subject": f"{name}.x",
        "subjects": ">",
        "name": name,
        "stream": name,
        "consumer": "c",
        "group": "g",
        "config": configs.get(function.rpartition("_")[2], ConsumerConfig(name="c")),
        "bucket": name,
        "key": "k",
        "keys": ["k"],
        "value": b"v",
        "values": {"k": b"v"},
        "revision": 1,
        "data": b"v",
        "meta": ObjectMeta(name="o"),
        "target": ObjectInfo(name="o", bucket=name),
        "path": "/nonexistent/file",
        "sequence": 1,
        "until": 60.0,
        "max_messages": 1,
        "handler": print,
        "directory": "/dev/null/none",
        "letter": DeadLetter(
            stream=name,
            consumer="c",
            sequence=1,
            deliveries=1,
            kind="terminated",
            message=StoredMessage(
                stream=name, sequence=1, subject=f"{name}.x", data=b"", timestamp=datetime.now(UTC)
            ),
        ),
    }


def arguments(function: Any, parameter: Parameter, value: object, name: str) -> dict[str, object]:
    given = valid(name, parameter.function)
    required = {
        each.name: given[each.name]
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD and each.name != "self"
    }
    quick = {"expires": 0.1, "retry_for": 0.0}
    if parameter.name in ("subject", "to") and value in ODD_TEXT:
        value = f"{name}.{value}"  # The stream stores it, so that nothing waits for a stream.
    if parameter.name == "directory" and value in ODD_TEXT:
        value = f"/dev/null/{value}"  # Nothing is written there.
    more = {each: quick[each] for each in quick if each in inspect.signature(function).parameters}
    return {**required, **more, parameter.name: value}


def stream_config(name: str) -> StreamConfig:
    return StreamConfig(
        name=name, subjects=[f"{name}.>"], storage="memory", allow_direct=True, allow_atomic=True
    )


@pytest_asyncio.fixture
async def objects(shared_server: Server, name: str) -> AsyncIterator[dict[str, Any]]:
    """One object of each asynchronous class."""
    async with jetspark.connect(shared_server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(stream_config(name))
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="c"))
        async with await nc.subscribe(f"{name}.core") as plain:
            await nc.publish(f"{name}.core", b"", reply=f"{name}.answer")
            message = await plain.next()
        (delivered,) = await consumer.fetch(1)
        yield {
            "Connection": nc,
            "Msg": message,
            "JetStreamMsg": delivered,
            "JetStream": js,
            "Stream": stream,
            "Consumer": consumer,
            "OrderedConsumer": await stream.ordered_consumer(),
            "Publisher": js.publisher(),
            "AtomicBatch": js.atomic_batch(),
            "PullSubscription": await js.pull_subscribe(f"{name}.>", durable="p"),
            "KeyValue": await js.create_key_value(KeyValueConfig(bucket=name, storage="memory")),
            "ObjectStore": await js.create_object_store(ObjectStoreConfig(bucket=name, storage="memory")),
        }
        await stream.delete()
        await js.delete_object_store(name)
        await js.delete_key_value(name)


@pytest.fixture
def plain_objects(shared_server: Server, name: str) -> Iterator[dict[str, Any]]:
    """One object of each blocking class."""
    with blocking.connect(shared_server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(stream_config(name))
        consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))
        with nc.subscribe(f"{name}.core") as plain:
            nc.publish(f"{name}.core", b"", reply=f"{name}.answer")
            message = plain.next()
        (delivered,) = consumer.fetch(1)
        yield {
            "Connection": nc,
            "Msg": message,
            "JetStreamMsg": delivered,
            "JetStream": js,
            "Stream": stream,
            "Consumer": consumer,
            "OrderedConsumer": stream.ordered_consumer(),
            "Publisher": js.publisher(),
            "AtomicBatch": js.atomic_batch(),
            "PullSubscription": js.pull_subscribe(f"{name}.>", durable="p"),
            "KeyValue": js.create_key_value(KeyValueConfig(bucket=name, storage="memory")),
            "ObjectStore": js.create_object_store(ObjectStoreConfig(bucket=name, storage="memory")),
        }
        stream.delete()
        js.delete_object_store(name)
        js.delete_key_value(name)


async def outcome(function: Callable[..., Any], given: dict[str, object]) -> Exception | None:
    """The error of a call, or None."""
    try:
        result = function(**given)
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            await anext(result, None)
    except Exception as error:
        return error
    return None


def plain_outcome(function: Callable[..., Any], given: dict[str, object]) -> Exception | None:
    try:
        result = function(**given)
        if isinstance(result, Iterator):
            next(result, None)
    except Exception as error:
        return error
    return None


def wrong(parameter: Parameter, value: object, error: Exception | None, *, refused: bool) -> str | None:
    """What is wrong with the outcome of a call; None if it is as it should be."""
    fits = isinstance(error, UsageError) if refused else error is None or isinstance(error, Error)
    if parameter.function.endswith("_file") and not refused:
        fits = fits or isinstance(error, OSError)
    shown = repr(value)[:40]
    return None if fits else f"{parameter.function}({parameter.name}={shown}): {error!r}"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
async def test_the_asynchronous_api_refuses_bad_text(cls: type, objects: dict[str, Any], name: str) -> None:
    found = []
    for parameter in parameters_of(cls):
        function = getattr(objects[cls.__name__], parameter.function)
        for values, refused in ((parameter.refused(), True), (ODD_TEXT, False)):
            for value in values:
                error = await outcome(function, arguments(function, parameter, value, name))
                found.append(wrong(parameter, value, error, refused=refused))
    assert [each for each in found if each] == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_blocking_api_refuses_bad_text(cls: type, plain_objects: dict[str, Any], name: str) -> None:
    found = []
    for parameter in parameters_of(cls):
        function = getattr(plain_objects[cls.__name__], parameter.function)
        for value in parameter.refused():
            error = plain_outcome(function, arguments(function, parameter, value, name))
            found.append(wrong(parameter, value, error, refused=True))
    assert [each for each in found if each] == []


@for_each("value", [["a"], {}, "a", 7, None])
async def test_other_types_for_configurations_and_events_are_refused(
    value: Any, objects: dict[str, Any]
) -> None:
    js, stream, nc = objects["JetStream"], objects["Stream"], objects["Connection"]
    for call in (
        js.create_stream,
        js.update_stream,
        js.create_or_update_stream,
        js.create_key_value,
        js.update_key_value,
        js.create_or_update_key_value,
        js.create_object_store,
        js.update_object_store,
        stream.update,
        stream.create_consumer,
        stream.update_consumer,
        lambda config: js.create_or_update_consumer(stream.name, config),
    ):
        with pytest.raises(UsageError, match="config must be a"):
            await call(value)
    with pytest.raises(UsageError, match="event must be one of"):
        nc.on(value, print)
    with pytest.raises(UsageError, match="a listener of 'closed' must be a function"):
        nc.on("closed", value)


@for_each("seconds", [-1, float("nan"), float("inf"), 1e300, 10**400, "1", [1]])
async def test_a_delay_or_a_pause_without_end_is_refused(seconds: Any, objects: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="delay"):
        await objects["JetStreamMsg"].nak(seconds)
    if not isinstance(seconds, str | list):
        with pytest.raises(UsageError, match="until"):
            await objects["Consumer"].pause(seconds)


def test_there_are_parameters_to_test() -> None:
    assert sum(len(parameters_of(cls)) for cls in CLASSES) > 90


# --- options


CONNECT = [each.name for each in text_parameters(jetspark.connect, "connect")]


@for_each("option", CONNECT)
async def test_connect_refuses_bad_text(option: str, shared_server: Server) -> None:
    needs: dict[str, str] = {"password": {"user": "u"}, "tls_key_file": {"tls_cert_file": "x"}}.get(
        option, {}
    )
    found = []
    for value in [*NOT_TEXT, *ODD_TEXT]:
        error = await outcome(connect_and_close, {"servers": shared_server.url, **needs, option: value})
        refused = value in NOT_TEXT or ("file" in option and value == "a\0b")
        found.append(wrong(Parameter("connect", option, several=False), value, error, refused=refused))
    assert [each for each in found if each] == []


async def connect_and_close(servers: Any, **options: Any) -> None:
    async with jetspark.connect(servers, **options):
        pass


@for_each("option", CONNECT)
def test_the_blocking_connect_refuses_bad_text(option: str, shared_server: Server) -> None:
    needs: dict[str, str] = {"password": {"user": "u"}, "tls_key_file": {"tls_cert_file": "x"}}.get(
        option, {}
    )
    for value in NOT_TEXT:
        error = plain_outcome(blocking.connect, {"servers": shared_server.url, **needs, option: value})
        assert isinstance(error, UsageError), (value, error)


@for_each("option", ["name", "domain", "token", "config", "store_dir", "users", "nkeys"])
def test_the_embedded_server_refuses_bad_text(option: str) -> None:
    for value in [*NOT_TEXT, ["a\ud800"], [7]]:
        assert isinstance(plain_outcome(Server, {option: value}), UsageError), value


@for_each("option", ["user", "password", "account", "publish_allow", "subscribe_deny"])
def test_a_user_of_the_embedded_server_refuses_bad_text(option: str) -> None:
    for value in [*NOT_TEXT, ["a\ud800"], [7]]:
        error = plain_outcome(User, {"user": "a", "password": "b", option: value})
        assert isinstance(error, UsageError), value


@for_each("name", [b"a", 7, ["a"], {7: 1}])
def test_a_header_name_that_is_not_text_is_refused(name: Any) -> None:
    headers = Headers({"a": "b"})
    for look in (headers.get, headers.get_all, headers.__getitem__):
        with pytest.raises(UsageError, match="name of a header"):
            look(name)
    assert name not in headers


# --- models

MODELS = sorted(
    {
        value
        for module in (stream_models, consumer_models, request_models, kv_models, object_models)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Model) and value not in (Model, PubAck)
    },
    key=lambda model: model.__name__,
)


@for_each("model", MODELS, ids=lambda model: model.__name__)
def test_models_refuse_bad_text(model: type[Model]) -> None:
    fields = [field for field in msgspec.structs.fields(model) if field.name != "extra"]
    required: dict[str, object] = {"name": "a", "stream_name": "a", "dest": "a", "src": "a", "group": "a"}
    required |= {
        "bucket": "a",
        "config": ConsumerConfig(name="a"),
        "seq": 1,
        "sequence": 1,
        "subject": "a",
        "stream": "a",
    }
    needed = {field.name for field in fields if field.required}
    found = []
    for field in fields:
        if not takes_text(str(field.type).replace("<class 'str'>", "str")):
            continue
        several = "list" in str(field.type) or "dict" in str(field.type)
        for value in [*NOT_TEXT, ["a\ud800"], {"a\ud800": "b"}, {"a": "b\ud800"}, *ODD_TEXT]:
            given = {name: required.get(name, "a") for name in needed} | {field.name: value}

            def make(given: dict[str, Any] = given) -> bytes:
                return model(**given).to_json()

            parameter = Parameter(model.__name__, field.name, several)
            refused = value not in ODD_TEXT
            found.append(wrong(parameter, value, plain_outcome(make, {}), refused=refused))
    assert [each for each in found if each] == []
