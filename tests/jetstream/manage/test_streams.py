"""Streams: created, changed, listed, counted, purged, sealed and deleted on a real server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import jetspark
from jetspark import (
    APIError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    MessageNotFound,
    PermissionsViolation,
    StreamNameInUse,
    StreamNotFound,
    StreamSealed,
    StreamSubjectOverlap,
    Timeout,
    UsageError,
    WrongLastSequence,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.stream import RetentionPolicy, StorageType, StreamConfig
from jetspark.jetstream.stream import Stream
from jetspark.server import User, run
from jetspark.wire import PubFrame
from tests.jetstream.support import cut_at, cut_at_answer, memory, patient
from tests.support.cases import for_each
from tests.support.consuming import Lossy, until
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.timing import set_timing

REQUEST = re.compile(rb"PUB \$JS\.API\.STREAM\.\S+ \S+ \d+\r\n(.*)\r\n")
DELETED = re.compile(rb"MSG \S+ \S+ \d+\r\n(.*stream_msg_delete_response.*)\r\n")

# --- creating


async def test_a_created_stream_has_the_configuration_that_was_asked_for(js: JetStream) -> None:
    stream = await js.create_stream(memory("ORDERS", "orders.>", retention="workqueue", max_age=60.5))
    assert (stream.name, stream.config.name) == ("ORDERS", "ORDERS")
    assert stream.config.subjects == ["orders.>"]
    assert stream.config.retention is RetentionPolicy.WORKQUEUE
    assert stream.config.storage is StorageType.MEMORY
    assert stream.config.max_age == 60.5
    assert stream.cached_info.did_create
    assert stream.cached_info.state.messages == 0
    assert repr(stream) == "<Stream ORDERS>"


async def test_creating_the_same_stream_twice_gives_the_one_that_is_there(js: JetStream) -> None:
    first = await js.create_stream(memory("A", "a"))
    second = await js.create_stream(memory("A", "a"))
    assert second.cached_info.created == first.cached_info.created


async def test_creating_a_stream_of_another_configuration_says_that_the_name_is_in_use(js: JetStream) -> None:
    await js.create_stream(memory("A", "a"))
    with pytest.raises(StreamNameInUse, match="create_or_update_stream") as caught:
        await js.create_stream(memory("A", "b"))
    assert (caught.value.err_code, caught.value.stream) == (10058, "A")


async def test_a_stream_cannot_take_the_subjects_of_another(js: JetStream) -> None:
    await js.create_stream(memory("A", "a.>"))
    with pytest.raises(StreamSubjectOverlap):
        await js.create_stream(memory("B", "a.b"))


async def test_create_or_update_creates_then_updates(js: JetStream) -> None:
    created = await js.create_or_update_stream(memory("A", "a"))
    updated = await js.create_or_update_stream(memory("A", "a", "b"))
    assert created.config.subjects == ["a"]
    assert updated.config.subjects == ["a", "b"]
    assert updated.cached_info.created == created.cached_info.created


# --- changing


async def test_updating_a_stream_that_is_not_there_says_so(js: JetStream) -> None:
    with pytest.raises(StreamNotFound, match="stream A not found"):
        await js.update_stream(memory("A", "a"))


async def test_an_update_through_the_stream_refreshes_what_it_knows(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a"))
    info = await stream.update(stream.config.replace(max_msgs=3))
    assert info.config.max_msgs == 3
    assert stream.config.max_msgs == 3


async def test_an_update_that_the_server_refuses_is_an_api_error_in_its_words(js: JetStream) -> None:
    await js.create_stream(memory("A", "a"))
    with pytest.raises(APIError, match="storage") as caught:
        await js.update_stream(StreamConfig(name="A", subjects=["a"]))
    assert type(caught.value) is APIError
    assert caught.value.code == 500


async def test_an_update_keeps_what_another_client_configured(nc: Connection, js: JetStream) -> None:
    request = {"name": "A", "subjects": ["a"], "storage": "memory", "metadata": {"team": "x"}, "max_msgs": 9}
    await nc.request("$JS.API.STREAM.CREATE.A", json.dumps(request).encode())
    stream = await js.get_stream("A")
    await stream.update(stream.config.replace(description="ours"))
    config = (await stream.info()).config
    assert (config.description, config.max_msgs) == ("ours", 9)
    assert config.metadata["team"] == "x"


async def test_fields_of_a_newer_server_go_back_to_it_with_an_update() -> None:
    config = {"name": "A", "subjects": ["a"], "retention": "limits", "storage": "file", "from_2031": {"x": 1}}
    answer = {
        "type": "...",
        "config": config,
        "created": "2031-01-01T00:00:00Z",
        "state": {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0},
    }
    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.STREAM.>", lambda peer, pub: peer.answer(pub, json.dumps(answer).encode()))
        async with await jetspark.connect(server.url) as nc:
            stream = await JetStream(nc).get_stream("A")
            await stream.update(stream.config.replace(max_msgs=1))
        sent = [pub for pub in server.peers[0].all(PubFrame) if b"UPDATE" in pub.subject]
    assert json.loads(sent[0].data)["from_2031"] == {"x": 1}
    assert json.loads(sent[0].data)["max_msgs"] == 1


# --- finding and deleting


async def test_getting_a_stream_that_is_not_there_says_so(js: JetStream) -> None:
    with pytest.raises(StreamNotFound, match=r"js\.create_stream") as caught:
        await js.get_stream("NOPE")
    assert caught.value.err_code == 10059


async def test_a_deleted_stream_is_gone(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a"))
    await js.create_stream(memory("B", "b"))
    delete: Callable[[str], Awaitable[object]] = js.delete_stream
    assert await delete("A") is None
    await (await js.get_stream("B")).delete()
    with pytest.raises(StreamNotFound):
        await stream.info()
    with pytest.raises(StreamNotFound):
        await js.delete_stream("A")
    assert [name async for name in js.stream_names()] == []


@for_each("name", ["", "a.b", "a b", "*", ">", "a/b"])
async def test_a_name_that_could_be_another_subject_is_refused_before_anything_is_sent(
    js: JetStream, name: str
) -> None:
    with pytest.raises(UsageError, match="stream"):
        await js.get_stream(name)
    with pytest.raises(UsageError, match="stream"):
        await js.delete_stream(name)


# --- listing


async def test_lists_can_be_limited_to_streams_that_store_a_subject(js: JetStream) -> None:
    await js.create_stream(memory("A", "a.>"))
    await js.create_stream(memory("B", "b.*"))
    assert [name async for name in js.stream_names("a.x")] == ["A"]
    assert [name async for name in js.stream_names("b.>")] == ["B"]
    assert [name async for name in js.stream_names("c")] == []
    assert [info.config.name async for info in js.streams("b.1")] == ["B"]
    assert sorted([info.config.name async for info in js.streams()]) == ["A", "B"]
    with pytest.raises(UsageError):
        await anext(aiter(js.stream_names("a b")))


async def test_lists_go_on_beyond_the_first_page(js: JetStream) -> None:
    # 256 infos and 1024 names are a page.
    names = {f"S{number}" for number in range(1030)}
    for name in sorted(names):
        js.connection.publish(
            f"$JS.API.STREAM.CREATE.{name}",
            json.dumps({"name": name, "subjects": [name.lower()], "storage": "memory"}).encode(),
            reply="nobody.listens",
        )

    async def all_there() -> bool:
        return (await js.account_info()).streams == len(names)

    await until(all_there, "the streams, which the server creates in any order")
    listed = [name async for name in js.stream_names()]
    assert len(listed) == len(names)
    assert set(listed) == names
    infos = [info.config.name async for info in js.streams()]
    assert len(infos) == len(names)
    assert set(infos) == names


# --- info


async def test_info_counts_messages_and_refreshes_what_is_cached(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a.*"))
    await js.publish("a.1")
    await js.publish("a.2")
    assert stream.cached_info.state.messages == 0
    info = await stream.info()
    assert (info.state.messages, info.state.num_subjects) == (2, 2)
    assert info.state.subjects == {}
    assert stream.cached_info is info


async def test_info_lists_deleted_sequences_and_subjects_when_asked(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a.*"))
    for subject in ("a.1", "a.2", "a.2", "a.3"):
        await js.publish(subject)
    await stream.delete_message(2)
    info = await stream.info(deleted_details=True, subjects_filter="a.*")
    assert info.state.deleted == [2]
    assert info.state.subjects == {"a.1": 1, "a.2": 1, "a.3": 1}
    assert (await stream.info(subjects_filter="a.1")).state.subjects == {"a.1": 1}


async def test_info_gathers_all_pages_of_subjects(nc: Connection, js: JetStream) -> None:
    # 100,000 subjects are a page.
    stream = await js.create_stream(memory("A", "a.*"))
    for start in range(0, 100_500, 4_000):
        for number in range(start, min(start + 4_000, 100_499)):
            nc.publish(f"a.{number}")
        await js.publish("a.ack")  # in order behind the others: nothing queues up
    info = await stream.info(subjects_filter="a.*")
    assert len(info.state.subjects) == 100_500
    assert info.state.num_subjects == 100_500


# --- purging and sealing


@pytest.fixture
async def filled(js: JetStream) -> Stream:
    """Ten messages: a.0, a.1, a.0, ..."""
    stream = await js.create_stream(memory("A", "a.*"))
    for number in range(10):
        await js.publish(f"a.{number % 2}")
    return stream


@pytest.mark.parametrize(
    ("what", "purged", "first", "left"),
    [
        ({}, 10, 11, 0),
        ({"subject": "a.0"}, 5, 2, 5),
        ({"sequence": 4}, 3, 4, 7),
        ({"keep": 2}, 8, 9, 2),
        ({"subject": "a.1", "sequence": 5}, 2, 1, 8),
        ({"subject": "a.1", "keep": 1}, 4, 1, 6),
        ({"subject": "b"}, 0, 1, 10),
    ],
    ids=str,
)
async def test_purge_deletes_what_was_asked_for(
    filled: Stream, what: dict[str, Any], purged: int, first: int, left: int
) -> None:
    assert await filled.purge(**what) == purged
    state = (await filled.info()).state
    assert (state.first_seq, state.messages) == (first, left)


async def test_purge_takes_a_sequence_or_a_number_to_keep_but_not_both(filled: Stream) -> None:
    with pytest.raises(UsageError, match="keep"):
        await filled.purge(sequence=2, keep=2)


async def test_a_sealed_stream_takes_and_loses_nothing(js: JetStream, filled: Stream) -> None:
    info = await filled.seal()
    assert info.config.sealed
    assert filled.config.sealed
    with pytest.raises(StreamSealed):
        await js.publish("a.0")
    for refused in (filled.delete_message(1), filled.secure_delete_message(1), filled.purge()):
        with pytest.raises(APIError, match=r"not permitted|sealed"):
            await refused
    assert (await filled.get_message(1)).sequence == 1


async def test_publishing_with_the_wrong_last_sequence_stores_nothing(js: JetStream, filled: Stream) -> None:
    with pytest.raises(WrongLastSequence) as caught:
        await js.publish("a.0", expected_last_sequence=3)
    assert caught.value.last_sequence == 10
    assert (await js.publish("a.0", expected_last_sequence=10)).sequence == 11


# --- what can go wrong on the way


async def test_a_subject_that_is_not_permitted_is_named_in_the_error() -> None:
    watcher = User(user="watcher", password="secret", publish_deny=["$JS.API.STREAM.CREATE.>"])
    with run(users=[watcher]) as server:
        async with await jetspark.connect(server.url, user="watcher", password="secret") as nc:
            js = JetStream(nc)
            with pytest.raises(PermissionsViolation, match=r"\$JS\.API\.STREAM\.CREATE\.A"):
                await js.create_stream(memory("A", "a"))
            assert [name async for name in js.stream_names()] == []


async def test_a_server_that_does_not_answer_ends_in_a_timeout(proxy: TCPProxy) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc, timeout=0.2)
        proxy.stall()
        with pytest.raises(Timeout, match="did not answer"):
            await js.get_stream("A")
        proxy.unstall()


async def test_a_request_that_is_lost_is_repeated_if_that_is_safe(proxy: TCPProxy) -> None:
    requests = proxy.client_to_server = Lossy(REQUEST, lose=1)
    async with asyncio.timeout(30), await jetspark.connect(proxy.url) as nc:
        js = patient(nc)
        stream = await js.create_stream(memory("A", "a"))
        for _ in range(9):
            await js.publish("a")
        requests.lose += 1
        assert (await stream.info()).config.name == "A"
        requests.lose += 1
        await stream.purge(sequence=3)
        requests.lose += 1
        await stream.purge(sequence=5, subject="a")
        requests.lose += 1
        await stream.delete_message(9)
        assert (await stream.info()).state.messages == 4
    assert len(requests.lost) == 5


@pytest.mark.parametrize("selection", [{}, {"subject": "a"}, {"keep": 1}, {"sequence": 0}])
async def test_a_purge_that_could_delete_later_messages_is_not_repeated(
    proxy: TCPProxy, selection: dict[str, Any]
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await js.create_stream(memory("A", "a"))
        js.api.timeout = 0.5
        set_timing(js, silence=0.05)
        requests = proxy.client_to_server = Lossy(REQUEST, lose=1)
        with pytest.raises(Timeout, match="did not answer"):
            await stream.purge(**selection)
        assert len(requests.payloads) == 1


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize("sequence", [1, 2, 3])
async def test_a_message_is_deleted_though_the_answer_is_lost(
    proxy: TCPProxy, storage: StorageType, sequence: int
) -> None:
    async with asyncio.timeout(30), await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        js = patient(nc)
        stream = await js.create_stream(StreamConfig(name="A", subjects=["a"], storage=storage))
        for _ in range(3):
            await js.publish("a")
        answers = proxy.server_to_client = Lossy(DELETED, lose=1)
        await stream.delete_message(sequence)
        assert b'"success":true' in answers.payloads[0]
        assert b'"error"' in answers.payloads[-1]
        with pytest.raises(MessageNotFound):
            await stream.delete_message(sequence)
        assert (await stream.info()).state.messages == 2


async def test_a_message_is_deleted_though_the_connection_breaks_before_the_answer(proxy: TCPProxy) -> None:
    async with asyncio.timeout(30), await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc)
        stream = await js.create_stream(memory("A", "a"))
        await js.publish("a")
        cut_at_answer(proxy, b"stream_msg_delete_response")
        await stream.delete_message(1)
        assert proxy.accepted == 2
        assert (await stream.info()).state.messages == 0


async def test_a_connection_that_breaks_under_a_change_says_so_and_under_a_question_does_not(
    proxy: TCPProxy,
) -> None:
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc)
        await js.create_stream(memory("A", "a"))
        cut_at(proxy, b"STREAM.DELETE")
        with pytest.raises(ConnectionLost):
            await js.delete_stream("A")
        cut_at(proxy, b"STREAM.INFO")
        assert (await js.get_stream("A")).name == "A"
        assert proxy.accepted == 3


async def test_a_closed_connection_is_told_at_once(nc: Connection, js: JetStream) -> None:
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await js.get_stream("A")
    with pytest.raises(ConnectionClosed):
        await anext(aiter(js.streams()))
