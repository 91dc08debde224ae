"""Backups of streams: a directory, and the stream again from it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from jetspark import (
    APIError,
    ConsumerConfig,
    JetStream,
    JetStreamError,
    RemoteProtocolError,
    StreamConfig,
    StreamNotFound,
    UsageError,
    blocking,
    connect,
)
from jetspark.jetstream.backup import backup
from jetspark.server import Server
from jetspark.wire import PubFrame
from tests.support.scripted import Peer, ScriptedServer


async def test_a_stream_comes_back_with_messages_and_consumers(js: JetStream, tmp_path: Path) -> None:
    stream = await js.create_stream(StreamConfig(name="BACKUP", subjects=["backup.>"]))
    async with js.publisher() as publisher:
        for number in range(500):
            publisher.publish(f"backup.{number % 5}", os.urandom(2000), headers={"n": str(number)})
    await stream.delete_message(7)
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="worker"))
    for message in await consumer.fetch(10):
        await message.ack_sync()
    before = await stream.get_message(100)
    seen: list[int] = []
    held = await stream.backup(tmp_path / "b", progress=seen.append)
    assert (held.messages, held.last_seq) == (499, 500)
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["backup.json", "stream.tar.s2"]
    assert (tmp_path / "b" / "stream.tar.s2").stat().st_size == seen[-1] > 900_000
    assert (tmp_path / "b").stat().st_mode & 0o77 == 0
    await stream.delete()
    sent: list[int] = []
    restored = await js.restore_stream(tmp_path / "b", progress=sent.append)
    assert sent[-1] == seen[-1]
    state = (await restored.info()).state
    assert (state.messages, state.last_seq, state.consumer_count) == (499, 500, 1)
    after = await restored.get_message(100)
    assert (after.data, dict(after.headers), after.timestamp) == (
        before.data,
        dict(before.headers),
        before.timestamp,
    )
    assert (await restored.get_consumer("worker")).cached_info.ack_floor.stream_seq == 11
    with pytest.raises(APIError):
        await js.restore_stream(tmp_path / "b")
    await restored.delete()


async def test_consumers_may_be_left_out_and_the_configuration_replaced(
    js: JetStream, tmp_path: Path
) -> None:
    stream = await js.create_stream(StreamConfig(name="PLAIN", subjects=["plain"]))
    await js.publish("plain", b"x")
    await stream.create_consumer(ConsumerConfig(durable_name="worker"))
    await stream.backup(tmp_path, consumers=False, check=True)
    await stream.delete()
    config = StreamConfig(name="PLAIN", subjects=["plain"], description="restored")
    restored = await js.restore_stream(tmp_path, config=config)
    assert restored.config.description == "restored"
    assert (await restored.info()).state.consumer_count == 0
    await restored.delete()


async def test_what_is_no_backup_is_refused(js: JetStream, tmp_path: Path) -> None:
    stream = await js.create_stream(StreamConfig(name="TWICE", subjects=["twice"]))
    await stream.backup(tmp_path / "b")
    with pytest.raises(UsageError, match="already holds a backup"):
        await stream.backup(tmp_path / "b")
    with pytest.raises(UsageError, match="No such file"):
        await js.restore_stream(tmp_path / "none")
    for content in ("{}", "[]", "\x00", json.dumps({"config": 5, "state": {}})):
        (tmp_path / "backup.json").write_text(content)
        with pytest.raises(UsageError, match="does not describe a backup"):
            await js.restore_stream(tmp_path)
    (tmp_path / "backup.json").write_text(json.dumps({"config": {"name": "X"}, "state": {}}))
    with pytest.raises(UsageError, match=r"stream\.tar\.s2"):
        await js.restore_stream(tmp_path)
    await stream.delete()
    with pytest.raises(StreamNotFound):
        await stream.backup(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


#: A program whose backup is killed when the first part of the archive is written.
KILLED = """
import asyncio, os, signal, sys
import jetspark

async def main():
    async with jetspark.connect(sys.argv[1]) as nc:
        stream = await nc.jetstream().get_stream(sys.argv[2])
        await stream.backup(sys.argv[3], progress=lambda _: os.kill(os.getpid(), signal.SIGKILL))

asyncio.run(main())
"""


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_a_killed_backup_leaves_no_archive_under_its_name(js: JetStream, tmp_path: Path) -> None:
    stream = await js.create_stream(StreamConfig(name="KILLED", subjects=["killed"]))
    await js.publish("killed", os.urandom(500_000))
    arguments = [str(js.connection.connected_url), "KILLED", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, *arguments)
    assert await process.wait() == -signal.SIGKILL
    assert names(tmp_path) == ["stream.tar.s2.partial"]
    with pytest.raises(UsageError, match="No such file"):
        await js.restore_stream(tmp_path)
    await stream.backup(tmp_path)
    assert names(tmp_path) == ["backup.json", "stream.tar.s2"]
    await stream.delete()
    assert (await (await js.restore_stream(tmp_path)).info()).state.messages == 1
    await js.delete_stream("KILLED")


async def test_a_failed_or_cancelled_backup_removes_what_it_wrote(js: JetStream, tmp_path: Path) -> None:
    stream = await js.create_stream(StreamConfig(name="FAILED", subjects=["failed"]))
    await js.publish("failed", os.urandom(500_000))

    def fail(received: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await stream.backup(tmp_path, progress=fail)
    assert names(tmp_path) == []
    running = asyncio.create_task(stream.backup(tmp_path, progress=lambda _: running.cancel()))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        await stream.backup(tmp_path / "file" / "b")
    (tmp_path / "b" / "stream.tar.s2.partial").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"stream\.tar\.s2: Is a directory"):
        await stream.backup(tmp_path / "b")
    await stream.delete()


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ("", None, ""),
        ("204", None, ""),
        ("204 EOF", None, ""),
        ("408 No Flow Response", JetStreamError, "the backup of stream S failed: 408 No Flow Response"),
        ("500", JetStreamError, "the backup of stream S failed: 500$"),
        ("what", RemoteProtocolError, "not a number"),
    ],
)
async def test_a_status_ends_a_backup(
    tmp_path: Path, status: str, error: type[Exception] | None, message: str
) -> None:
    def answer(peer: Peer, request: PubFrame) -> None:
        parts = json.loads(request.data)["deliver_subject"]
        peer.answer(request, json.dumps({"config": {"name": "S"}, "state": {"messages": 1}}).encode())
        peer.deliver(parts, b"archive")
        peer.deliver(parts, status=status)

    async with ScriptedServer() as server, connect(server.url) as nc:
        server.on("$JS.API.STREAM.SNAPSHOT.S", answer)
        writing = backup(
            JetStream(nc)._api, "S", tmp_path, consumers=True, check=False, timeout=30, progress=None
        )
        if error is None:
            assert (await writing).messages == 1
            assert (tmp_path / "stream.tar.s2").read_bytes() == b"archive"
        else:
            with pytest.raises(error, match=message):
                await writing
            assert names(tmp_path) == []


def test_blocking_backups(shared_server: Server, tmp_path: Path) -> None:
    with blocking.connect(shared_server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name="BLOCKING", subjects=["blocking"]))
        js.publish("blocking", b"x")
        assert stream.backup(tmp_path).messages == 1
        stream.delete()
        assert js.restore_stream(tmp_path).info().state.messages == 1
        js.delete_stream("BLOCKING")
