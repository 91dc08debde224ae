"""What reads documents from outside. Each reads a mutated one: only some errors may come of it.

A result is also used: shown, written as JSON, sent back to the server. Nothing of that may fail later.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import redirect_stdout
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple, cast

import msgspec

from jetspark.cli.commands.events import _show
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.output import Output
from jetspark.console.collector import WatchedConsumer, WatchedStream
from jetspark.console.listing import list_consumers, list_streams
from jetspark.console.series import Series
from jetspark.core.connection import Connection
from jetspark.core.server_info import Feature, ServerInfo
from jetspark.errors import (
    APIError,
    AuthorizationError,
    Error,
    RemoteProtocolError,
    StatusError,
    UsageError,
    WrongLastSequence,
)
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API, APIAnswer
from jetspark.jetstream.kv.entry import KeyValueOperation, operation_of
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.message.stored import from_frame
from jetspark.jetstream.model.advisories import parse_advisory
from jetspark.jetstream.model.base import Model
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import AccountInfo
from jetspark.jetstream.model.requests import MsgGetRequest, PurgeRequest, is_from_stream, parse_pub_ack
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.objects.info import same_digest, stored_info
from jetspark.jetstream.read import direct
from jetspark.logs.control.switch import AgentReport, parse_report, parse_switch
from jetspark.metrics import job_samples
from jetspark.reports.jobs import JobReport
from jetspark.wire import MsgFrame, pub_acks
from jetspark.wire.websocket import Decoder, read_answer
from tests.fuzz import corpus
from tests.fuzz.mutate import mutate

__all__ = ["TARGETS", "Target"]


class Target(NamedTuple):
    """A reader of documents."""

    name: str
    #: Of 20 cases, how many are for it.
    share: int
    #: Chooses a document, and a function that reads it.
    choose: Callable[[Random], tuple[bytes, Callable[[bytes], object]]]
    allowed: tuple[type[Error], ...] = (RemoteProtocolError,)

    def check(self, random: Random) -> None:
        """Mutate a document and read it. Raises `AssertionError` for an error that is not allowed."""
        document, read = self.choose(random)
        data = mutate(random, document)
        try:
            read(data)
        except self.allowed as error:
            _use_error(error)
        except Exception as error:
            raise AssertionError(f"{self.name}: {error!r} because of {data[:2000]!r}") from error


def _use_error(error: Error) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    if isinstance(error, WrongLastSequence):
        assert error.last_sequence is None or error.last_sequence >= 0


def _use(result: object) -> None:
    repr(result)
    to_json(result)
    if isinstance(result, Model):
        type(result).from_wire(result.to_wire())
        result.to_json()


# --- the API


class _Answers(API):
    """The API of a server that answers so, up to four times."""

    def __init__(self, data: bytes) -> None:
        super().__init__(cast(Connection, None), domain=None, api_prefix=None, timeout=5.0)
        self._answers = [data] * 4

    async def ask(self, *_: object, **__: object) -> APIAnswer:
        data = self._answers.pop() if self._answers else b'{"error":{"code":500,"description":"no more"}}'
        return APIAnswer(data, repeated=False)


def _run(coroutine: Coroutine[Any, Any, object]) -> object:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


async def _list(entries: AsyncIterator[object]) -> list[object]:
    return [entry async for entry in entries]


async def _account(api: API) -> object:
    return AccountInfo.from_wire(await api.call(endpoints.ACCOUNT_INFO))


async def _listed_streams(api: API) -> object:
    """What the console lists, taken as the collector does."""
    page = await list_streams(api, 0)
    for listed in page.streams or ():
        WatchedStream(listed, 0.0, Series(3)).take(listed, 5.0)
    return msgspec.to_builtins(page)


async def _listed_consumers(api: API) -> object:
    page = await list_consumers(api, "S", 0)
    for listed in page.consumers or ():
        WatchedConsumer(listed, 0.0, Series(4)).take(listed, 5.0)
    return msgspec.to_builtins(page)


_STREAM, _CONSUMER = StreamConfig(name="S"), ConsumerConfig(name="c")
_CALLS: dict[str, tuple[Callable[[API], Coroutine[Any, Any, object]], ...]] = {
    "stream": (
        lambda api: streams.info(api, "S"),
        lambda api: streams.create(api, _STREAM),
        lambda api: streams.update(api, _STREAM),
    ),
    "consumer": (
        lambda api: consumers.info(api, "S", "c"),
        lambda api: consumers.create_or_update(api, "S", _CONSUMER, "create"),
        lambda api: consumers.reset(api, "S", "c", 5),
    ),
    "streams": (lambda api: _list(streams.infos(api)), _listed_streams),
    "consumers": (lambda api: _list(consumers.infos(api, "S")), _listed_consumers),
    "names": (lambda api: _list(streams.names(api)), lambda api: _list(consumers.names(api, "S"))),
    "account": (_account,),
    "message": (lambda api: direct.get(api, _STREAM, MsgGetRequest(seq=1)),),
    "small": (
        lambda api: streams.purge(api, "S", PurgeRequest()),
        lambda api: consumers.pause(api, "S", "c", None),
        lambda api: consumers.delete(api, "S", "c"),
    ),
}


def _choose_api(random: Random) -> tuple[bytes, Callable[[bytes], object]]:
    kind = random.choice(list(_CALLS))
    call = random.choice(_CALLS[kind])
    document = random.choice(corpus.API[kind if random.random() < 0.85 else "refusal"])

    def read(data: bytes) -> None:
        result = _run(call(_Answers(data)))
        for each in result if isinstance(result, list) else [result]:
            _use(each)

    return document, read


# --- everything else


def _of(documents: tuple[bytes, ...], *readers: Callable[[bytes], object]) -> Callable[[Random], Any]:
    return lambda random: (random.choice(documents), random.choice(readers))


def _info(data: bytes) -> None:
    info = ServerInfo.parse(data)
    for feature in Feature:
        info.supports(feature)


def _pub_ack(data: bytes) -> None:
    plain = pub_acks([MsgFrame(b"1", b"a.7", b"", b"", data)], 2) == [7]
    genuine = is_from_stream(data)
    assert genuine or not plain
    ack = parse_pub_ack(data)
    assert genuine
    assert ack.stream
    assert ack.sequence > 0
    assert not (plain and ack.duplicate)
    repr(ack)


def _advisory(data: bytes) -> None:
    event = parse_advisory(data)
    _use(event)
    with redirect_stdout(io.StringIO()):
        _show(Output(json=False), event)


def _control(data: bytes) -> None:
    parse_switch(data, 5).holds(datetime.now(UTC))
    repr(parse_report(data, AgentReport))
    job = parse_report(data, JobReport)
    if job is not None:
        assert list(job_samples(job))


def _object(data: bytes) -> None:
    info = stored_info(data, datetime.now(UTC), "b")
    _use(info)
    assert not same_digest(info.digest, b"another")
    assert info.link is None or info.link.bucket is not None


def _revision(header: bytes) -> None:
    operation, ttl = operation_of(header)
    assert operation in KeyValueOperation
    assert ttl is None or ttl >= 0


def _stored(header: bytes) -> None:
    _use(from_frame(MsgFrame(b"1", b"_INBOX.x", b"", header, b"data")))


def _upgrade(data: bytes) -> None:
    read_answer(data, corpus.WEBSOCKET_KEY)


def _frames(data: bytes) -> None:
    decoder = Decoder()
    for begin in range(0, len(data), 7):
        decoder.feed(data[begin : begin + 7])


def _batch(header: bytes) -> None:
    first = MsgFrame(b"1", b"_INBOX.x", b"", corpus.DIRECT[1], b"data")
    reader = direct._BatchReader(MsgGetRequest(seq=1, multi_last=["a"] if len(header) % 2 else []))
    try:
        reader.next_request()
        reader.accept([first, MsgFrame(b"1", b"_INBOX.x", b"", header, b"x" * (len(header) % 3))], "S")
        reader.next_request().to_json()
    except UsageError as error:
        if "does not support batches" not in str(error):
            raise


TARGETS = (
    Target("objects", 1, _of(corpus.OBJECTS, _object)),
    Target("keys", 1, _of(corpus.KEYS, _revision)),
    Target("API", 6, _choose_api, (RemoteProtocolError, APIError)),
    Target("advisories", 4, _of(corpus.ADVISORIES, _advisory)),
    Target("publish acks", 3, _of(corpus.PUB_ACKS, _pub_ack), (RemoteProtocolError, APIError)),
    Target(
        "direct gets", 2, _of(corpus.DIRECT, _stored, _batch), (RemoteProtocolError, APIError, StatusError)
    ),
    Target("INFO", 1, _of(corpus.INFO, _info)),
    Target("control", 1, _of(corpus.CONTROL, _control)),
    Target(
        "WebSocket", 1, _of(corpus.WEBSOCKET, _upgrade, _frames), (RemoteProtocolError, AuthorizationError)
    ),
)
