"""Each host's lines in its own file: written before they are acknowledged, whatever the disk does."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jetspark import AckPolicy, Consumer, ConsumerConfig, JetStream, JetStreamMsg, Msg, Stream
from jetspark.errors import ConsumerDeleted, NoResponders, UsageError
from jetspark.logs.compression import compressor
from jetspark.logs.files.consumer import ConsumeOptions, LogConsumer
from jetspark.logs.files.files import Appended, LogFiles
from jetspark.server import Server
from tests.logs.support import LONG, stored, until


async def make(stream: Stream, *, policy: AckPolicy = AckPolicy.EXPLICIT, ack_wait: float = 30.0) -> Consumer:
    return await stream.create_consumer(
        ConsumerConfig(durable_name="files", ack_policy=policy, ack_wait=ack_wait, max_ack_pending=20_000)
    )


async def redeliver(consumer: Consumer, stream: Stream) -> None:
    """Let the ack wait end for what was delivered: sooner than it was told."""
    await stream.update_consumer((await consumer.info()).config.replace(ack_wait=2.0))


async def publish(js: JetStream, stream: Stream, host: str, first: int, last: int) -> None:
    async with js.publisher() as publisher:
        for number in range(first, last + 1):
            await publisher.send(f"{stream.name.lower()}.0.{host}", b"%s-%d" % (host.encode(), number))


def expected(host: str, first: int, last: int) -> list[str]:
    return [f"{host}-{number}" for number in range(first, last + 1)]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


class Running:
    """A log consumer that runs, and what it has said."""

    def __init__(self, js: JetStream, consumer: Consumer, files: LogFiles, **options: Any) -> None:
        self.notes: list[str] = []
        settings = ConsumeOptions(**options)
        self.writer = LogConsumer(js, consumer, files, settings, self.notes.append)
        self.task = asyncio.create_task(self.writer.run())

    async def end(self) -> None:
        async with asyncio.timeout(LONG):
            await self.task

    async def stop(self) -> None:
        self.writer.stop()
        await self.end()

    async def says(self, words: str) -> None:
        async def said() -> bool:
            return any(words in note for note in self.notes)

        await until(said, f"{words!r} among {self.notes}")


async def acknowledged(consumer: Consumer, stream: Stream) -> None:
    # The server counts a message as pending a moment after it acknowledged it to its publisher.
    last = (await stream.info()).state.last_seq

    async def done() -> bool:
        info = await consumer.info()
        return info.num_ack_pending == info.num_pending == 0 and info.delivered.stream_seq >= last

    await until(done, "everything acknowledged")


async def counted(consumer: Consumer, stream: Stream) -> None:
    """Wait until the server counts everything as pending: a pull that does not wait gets only that."""
    last = (await stream.info()).state.last_seq

    async def done() -> bool:
        info = await consumer.info()
        return info.delivered.stream_seq + info.num_pending >= last

    await until(done, "everything delivered or pending")


@pytest.mark.parametrize("policy", [AckPolicy.EXPLICIT, AckPolicy.ALL])
async def test_each_host_has_its_file_and_everything_is_acknowledged(
    js: JetStream, stream: Stream, tmp_path: Path, policy: AckPolicy
) -> None:
    for host in ("web1", "web2", "db"):
        await publish(js, stream, host, 1, 1500)
    consumer = await make(stream, policy=policy)
    running = Running(js, consumer, LogFiles(tmp_path), once=True, batch=700)
    await running.end()
    for host in ("web1", "web2", "db"):
        assert lines(tmp_path / f"{host}.log") == expected(host, 1, 1500)
    await acknowledged(consumer, stream)
    assert (running.writer.status.lines, running.writer.status.hosts) == (4500, 3)


async def test_lines_are_on_the_disk_before_they_are_acknowledged(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream)
    running = Running(js, consumer, LogFiles(tmp_path))
    for number in range(1, 20):
        await publish(js, stream, "h", number, number)

        async def acked(number: int = number) -> bool:
            return (await consumer.info()).ack_floor.consumer_seq >= number

        await until(acked, f"message {number}")
        assert lines(tmp_path / "h.log") == expected("h", 1, number)
    await running.stop()


async def test_ack_all_acknowledges_after_so_many_and_after_so_long(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.ALL)
    await publish(js, stream, "h", 1, 100)
    running = Running(js, consumer, LogFiles(tmp_path), ack_every=100, ack_interval=29.0)
    await acknowledged(consumer, stream)  # there were so many
    await publish(js, stream, "h", 101, 110)

    async def written() -> bool:
        return running.writer.status.lines == 110

    await until(written, "110 lines")
    assert (await consumer.info()).num_ack_pending == 10
    await running.stop()  # the end acknowledges
    await acknowledged(consumer, stream)
    timed = Running(js, consumer, LogFiles(tmp_path), ack_every=10_000, ack_interval=0.2)
    await publish(js, stream, "h", 111, 120)
    await acknowledged(consumer, stream)  # the timer has
    await timed.stop()
    assert lines(tmp_path / "h.log") == expected("h", 1, 120)


@pytest.mark.parametrize("policy", [AckPolicy.EXPLICIT, AckPolicy.ALL])
async def test_a_message_that_arrives_at_the_end_is_written(
    js: JetStream, stream: Stream, tmp_path: Path, policy: AckPolicy
) -> None:
    consumer = await make(stream, policy=policy)
    for number in range(1, 9):
        running = Running(js, consumer, LogFiles(tmp_path))
        await asyncio.sleep(number / 20)
        publishing = asyncio.create_task(publish(js, stream, "h", number, number))
        await asyncio.sleep(number % 3 / 1000)
        await running.stop()
        await publishing
    await counted(consumer, stream)
    await Running(js, consumer, LogFiles(tmp_path), once=True).end()
    assert lines(tmp_path / "h.log") == expected("h", 1, 8)
    await acknowledged(consumer, stream)


async def test_ack_all_waits_for_what_a_crashed_reader_had(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.ALL)
    await publish(js, stream, "h", 1, 10)
    await counted(consumer, stream)  # the first batch has the other seven
    crashed = await stream.get_consumer(consumer.name)
    assert len(await crashed.fetch(3)) == 3
    running = Running(js, consumer, LogFiles(tmp_path), ack_every=1, ack_interval=0.1)
    await running.says("3 earlier messages were delivered elsewhere: nothing is acknowledged until")
    assert (await consumer.info()).num_ack_pending == 10
    await redeliver(consumer, stream)
    await running.says("the missing messages have arrived")
    await acknowledged(consumer, stream)
    await running.stop()
    assert sorted(lines(tmp_path / "h.log")) == sorted(expected("h", 1, 10))


async def test_ack_all_terminates_nothing_while_an_earlier_message_is_missing(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    """For the server, a term covers all earlier messages."""
    consumer = await make(stream, policy=AckPolicy.ALL)
    await publish(js, stream, "h", 1, 3)
    assert len(await (await stream.get_consumer(consumer.name)).fetch(3)) == 3
    await js.publish(f"{stream.name.lower()}.nohost", b"no host")
    await publish(js, stream, "h", 4, 5)
    await counted(consumer, stream)
    running = Running(js, consumer, LogFiles(tmp_path), ack_interval=0.1)
    await running.says("message 4 was terminated: no host in the subject")
    assert (await consumer.info()).num_ack_pending == 6
    await redeliver(consumer, stream)
    await acknowledged(consumer, stream)
    await running.stop()
    assert sorted(lines(tmp_path / "h.log")) == expected("h", 1, 5)
    assert running.writer.status.terminated == 1


async def test_ack_all_once_leaves_what_it_must_not_acknowledge(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.ALL)
    await publish(js, stream, "h", 1, 10)
    await counted(consumer, stream)
    assert len(await (await stream.get_consumer(consumer.name)).fetch(3)) == 3
    running = Running(js, consumer, LogFiles(tmp_path), once=True)
    await running.end()
    assert lines(tmp_path / "h.log") == expected("h", 4, 10)
    assert (await consumer.info()).num_ack_pending == 10
    assert running.notes == [
        "3 earlier messages were delivered elsewhere: nothing is acknowledged until the server redelivers "
        "them, in at most 30 s"
    ]


async def test_ack_all_notices_a_message_that_went_elsewhere(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.ALL)
    await publish(js, stream, "h", 1, 5)
    running = Running(js, consumer, LogFiles(tmp_path), ack_every=1, ack_interval=0.1)
    await acknowledged(consumer, stream)
    other = asyncio.create_task((await stream.get_consumer(consumer.name)).fetch(1, expires=LONG))

    async def asked() -> bool:
        return (await consumer.info()).num_waiting == 2

    await until(asked, "both wait")
    await publish(js, stream, "h", 6, 20)
    assert len(await other) == 1
    await running.says("1 earlier messages were delivered elsewhere")
    await redeliver(consumer, stream)
    await running.says("the missing messages have arrived")
    await acknowledged(consumer, stream)
    await running.stop()
    assert sorted(lines(tmp_path / "h.log")) == sorted(expected("h", 1, 20))


@pytest.mark.parametrize("policy", [AckPolicy.EXPLICIT, AckPolicy.ALL])
async def test_a_full_disk_is_waited_for_and_no_line_is_lost_or_torn(
    js: JetStream, stream: Stream, small_disk: Path, policy: AckPolicy
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    consumer = await make(stream, policy=policy)
    await publish(js, stream, "h", 1, 10_000)
    running = Running(js, consumer, LogFiles(small_disk), nak_delay=0.3, batch=2000)
    await running.says("No space left on device")
    assert (await consumer.info()).num_ack_pending > 0
    if (small_disk / "h.log").exists():
        assert (small_disk / "h.log").read_bytes()[-1:] in (b"\n", b"")
    ballast.unlink()
    await running.says("the disk has room again")
    await acknowledged(consumer, stream)
    await running.stop()
    assert lines(small_disk / "h.log") == expected("h", 1, 10_000)
    assert running.writer.status.naked > 0
    assert running.writer.status.state == "writing"


async def test_what_is_larger_than_the_disk_is_written_as_far_as_rotation_makes_room(
    js: JetStream, stream: Stream, small_disk: Path
) -> None:
    consumer = await make(stream)
    await js.publish(f"{stream.name.lower()}.0.big", b"x" * 900_000)
    await js.publish(f"{stream.name.lower()}.0.big", b"y" * 900_000)
    await js.publish(f"{stream.name.lower()}.0.small", b"fits")
    running = Running(js, consumer, LogFiles(small_disk, rotate_size=950_000, keep=0), nak_delay=0.2, batch=2)
    await acknowledged(consumer, stream)  # the rotation made room, as nothing is kept
    await running.stop()
    assert running.writer.status.naked == 0
    assert (small_disk / "small.log").read_bytes() == b"fits\n"
    assert (small_disk / "big.log").read_bytes() == b"y" * 900_000 + b"\n"


async def test_what_cannot_be_written_is_given_up_and_the_rest_goes_on(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    prefix = stream.name.lower()
    await js.publish(f"{prefix}.0.h", b"first")
    await js.publish(f"{prefix}.nohost", b"no host")
    await js.publish(f"{prefix}.0.h", b"x", headers={"Content-Encoding": "rot13"})
    await js.publish(f"{prefix}.0.h", gzip.compress(b"a" * 99)[:-9], headers={"Content-Encoding": "gzip"})
    await js.publish(f"{prefix}.0.h", gzip.compress(b"last"), headers={"Content-Encoding": "gzip"})
    for policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        consumer = await make(stream, policy=policy)
        directory = tmp_path / str(policy)
        directory.mkdir()
        running = Running(js, consumer, LogFiles(directory), once=True)
        await running.end()
        assert lines(directory / "h.log") == ["first", "last"]
        assert running.writer.status.terminated == 3
        assert len([note for note in running.notes if "was terminated" in note]) == 3
        await acknowledged(consumer, stream)
        await consumer.delete()


async def test_hostile_subjects_write_nowhere_else(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    directory = tmp_path / "a" / "out"
    directory.mkdir(parents=True)
    for host in ("/etc/passwd", "a/b", "e-ü", "~root", "x" * 300, "-rf"):
        await js.publish(f"{stream.name.lower()}.0.{host}", b"line")
    await Running(js, await make(stream), LogFiles(directory), once=True).end()
    found = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert len(found) == 6
    assert {path.parent for path in found} == {directory}


async def test_a_link_in_the_way_is_not_followed(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    (tmp_path / "h.log").symlink_to(tmp_path / "elsewhere")
    await publish(js, stream, "h", 1, 1)
    with suppress(OSError):
        await Running(js, await make(stream), LogFiles(tmp_path), once=True).end()
    assert not (tmp_path / "elsewhere").exists()


async def test_a_slow_disk_keeps_its_messages(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    consumer = await make(stream, ack_wait=3.0)
    await publish(js, stream, "h", 1, 10)
    await counted(consumer, stream)
    kept: Counter[str] = Counter()
    enough = threading.Event()

    def count(message: Msg) -> None:
        kept[message.subject] += message.data == b"+WPI"
        if len(kept) == 10 and min(kept.values()) >= 2:
            enough.set()

    class Slow(LogFiles):
        """A disk that is slow until each message was reported to be in progress, more than once."""

        def append(self, host: str, lines: Sequence[bytes]) -> Appended:
            assert enough.wait(LONG)
            return super().append(host, lines)

    await js.connection.subscribe(f"$JS.ACK.{stream.name}.{consumer.name}.>", callback=count)
    running = Running(js, consumer, Slow(tmp_path), once=True)
    await running.end()
    await acknowledged(consumer, stream)
    assert running.writer.status.redelivered == 0
    assert lines(tmp_path / "h.log") == expected("h", 1, 10)


async def test_files_are_rotated_by_size_and_the_oldest_go(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream)
    await publish(js, stream, "h", 1, 2000)
    await Running(js, consumer, LogFiles(tmp_path, rotate_size=2000, keep=3), once=True, batch=100).end()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["h.log", "h.log.1", "h.log.2", "h.log.3"]
    kept = [line for name in reversed(names) for line in lines(tmp_path / name)]
    assert kept == expected("h", 2001 - len(kept), 2000)
    assert all((tmp_path / name).stat().st_size <= 2000 for name in names)


async def test_a_consumer_without_acknowledgements_is_refused(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.NONE)
    with pytest.raises(UsageError, match="has ack policy none"):
        LogConsumer(js, consumer, LogFiles(tmp_path), ConsumeOptions(), print)
    with pytest.raises(UsageError):
        ConsumeOptions(batch=0)


async def test_a_line_that_a_crash_has_torn_is_mended(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    (tmp_path / "h.log").write_bytes(b"h-0\nh-")
    await publish(js, stream, "h", 1, 2)
    await Running(js, await make(stream), LogFiles(tmp_path), once=True).end()
    assert lines(tmp_path / "h.log") == expected("h", 0, 2)


def test_a_file_that_is_whole_is_not_read_to_append_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    files = LogFiles(tmp_path)
    for _ in range(3):
        files.append("h", [b"x" * 1000])
    assert sum(sizes) <= 3


def test_lines_that_fit_are_kept_when_the_others_do_not(small_disk: Path) -> None:
    files = LogFiles(small_disk)
    appended = files.append("h", [b"a" * 400_000] * 4)
    assert appended.full is not None
    assert (appended.lines, appended.bytes) == (2, 800_002)
    assert (small_disk / "h.log").stat().st_size == 800_002


async def test_a_header_block_that_is_none_is_given_up(
    js: JetStream, stream: Stream, tmp_path: Path, shared_server: Server
) -> None:
    block, subject = b"NATS/1.0\r\nfoo\r\n\r\n", f"{stream.name.lower()}.0.h".encode()
    _, writer = await asyncio.open_connection("127.0.0.1", shared_server.port)
    size = len(block)
    writer.write(b'CONNECT {"headers":true}\r\nHPUB %b %d %d\r\n%bx\r\n' % (subject, size, size + 1, block))
    await stored(stream, 1)
    writer.close()
    await publish(js, stream, "h", 1, 1)
    running = Running(js, await make(stream), LogFiles(tmp_path), once=True)
    await running.end()
    assert (running.writer.status.terminated, lines(tmp_path / "h.log")) == (1, ["h-1"])


async def test_bombs_are_given_up_and_what_they_could_hide_is_written_in_slices(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    gathered: list[int] = []

    class Watched(LogFiles):
        def append(self, host: str, lines: Sequence[bytes]) -> Appended:
            gathered.append(sum(map(len, lines)))
            assert threading.current_thread() is not threading.main_thread()
            return super().append(host, lines)

    subject, headers = f"{stream.name.lower()}.0.h", {"Content-Encoding": "gzip"}
    await js.publish(subject, gzip.compress(bytes(60_000_000)), headers=headers)
    for _ in range(12):
        await js.publish(subject, gzip.compress(bytes(4_000_000)), headers=headers)
    running = Running(js, await make(stream), Watched(tmp_path), once=True)
    await running.end()
    assert (running.writer.status.terminated, running.writer.status.lines) == (1, 12)
    assert max(gathered) <= 12_000_000
    assert (tmp_path / "h.log").stat().st_size == 12 * 4_000_001


async def test_a_pull_is_bounded_in_bytes(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    for _ in range(40):
        await js.publish(f"{stream.name.lower()}.0.h", bytes(1_000_000))
    pulled: list[int] = []

    class Counted(LogConsumer):
        async def _handle(self, messages: Sequence[JetStreamMsg]) -> None:
            pulled.append(len(messages))
            await super()._handle(messages)

    await Counted(js, await make(stream), LogFiles(tmp_path), ConsumeOptions(once=True), print).run()
    assert (sum(pulled), max(pulled) <= 16) == (40, True)


@pytest.mark.parametrize("policy", [AckPolicy.EXPLICIT, AckPolicy.ALL])
async def test_without_zstd_its_lines_are_given_up_and_the_others_written(
    js: JetStream, stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: AckPolicy
) -> None:
    subject = f"{stream.name.lower()}.0.h"
    packed = compressor("zstd")(b"packed" * 99)
    await js.publish(subject, b"before")
    await js.publish(subject, packed, headers={"Content-Encoding": "zstd"})
    await js.publish(subject, b"after")
    consumer = await make(stream, policy=policy)
    for module in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    running = Running(js, consumer, LogFiles(tmp_path), once=True)
    await running.end()
    assert lines(tmp_path / "h.log") == ["before", "after"]
    assert running.writer.status.terminated == 1
    assert running.notes == [
        "message 2 was terminated: zstd is not available here. Python 3.14 has it, or `pip install zstandard`"
    ]
    await acknowledged(consumer, stream)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "Gzip"])
async def test_the_case_of_an_encoding_does_not_matter(
    js: JetStream, stream: Stream, tmp_path: Path, encoding: str
) -> None:
    packed = gzip.compress(b"packed" * 99)
    await js.publish(f"{stream.name.lower()}.0.h", packed, headers={"content-encoding": encoding})
    running = Running(js, await make(stream), LogFiles(tmp_path), once=True)
    await running.end()
    assert (running.writer.status.terminated, lines(tmp_path / "h.log")) == (0, ["packed" * 99])


def test_a_fifo_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "h.log")
    with pytest.raises(OSError, match=r"it is a FIFO, not a regular file: '.*h\.log'"):
        LogFiles(tmp_path).append("h", [b"line"])


async def test_ack_all_writes_nothing_twice_because_another_host_has_no_room(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    class OneIsFull(LogFiles):
        refusals = 0

        def append(self, host: str, lines: Sequence[bytes]) -> Appended:
            if host == "a" and self.refusals < 4:
                self.refusals += 1
                return Appended(0, 0, OSError(errno.ENOSPC, "full"))
            return super().append(host, lines)

    for number in range(1, 4):
        await publish(js, stream, "a", number, number)
        await publish(js, stream, "b", number, number)
    consumer = await make(stream, policy=AckPolicy.ALL)
    running = Running(js, consumer, OneIsFull(tmp_path), nak_delay=0.05, ack_interval=0.2)
    await acknowledged(consumer, stream)
    await running.stop()
    assert lines(tmp_path / "a.log") == expected("a", 1, 3)
    assert lines(tmp_path / "b.log") == expected("b", 1, 3)


async def test_ack_all_goes_on_when_a_message_that_had_no_room_is_deleted(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    class NoRoomForA(LogFiles):
        def append(self, host: str, lines: Sequence[bytes]) -> Appended:
            full = Appended(0, 0, OSError(errno.ENOSPC, "full"))
            return full if host == "a" else super().append(host, lines)

    await publish(js, stream, "a", 1, 1)
    await publish(js, stream, "b", 1, 1)
    consumer = await make(stream, policy=AckPolicy.ALL, ack_wait=2.0)
    running = Running(js, consumer, NoRoomForA(tmp_path), nak_delay=0.05, ack_interval=0.2)
    await running.says("No space left on device")
    assert (await consumer.info()).num_ack_pending == 2
    await stream.delete_message(1)
    await publish(js, stream, "b", 2, 2)
    await acknowledged(consumer, stream)
    await running.stop()
    assert set(lines(tmp_path / "b.log")) == set(expected("b", 1, 2))


async def test_a_consumer_that_is_deleted_ends_the_work(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream)
    running = Running(js, consumer, LogFiles(tmp_path))
    await publish(js, stream, "h", 1, 1)
    await acknowledged(consumer, stream)
    await consumer.delete()  # while it waits
    with pytest.raises(ConsumerDeleted):
        await running.end()
    with pytest.raises(ConsumerDeleted):
        await Running(js, consumer, LogFiles(tmp_path)).end()


async def test_an_outage_is_told_once(js: JetStream, stream: Stream, tmp_path: Path) -> None:
    class WithoutLeader(LogConsumer):
        """As one whose consumer has no leader for two pulls."""

        pulls = 0

        async def _pull(self) -> Sequence[JetStreamMsg]:
            self.pulls += 1
            if self.pulls <= 2:
                raise NoResponders("nobody leads")
            return await super()._pull()

    notes: list[str] = []
    writer = WithoutLeader(js, await make(stream), LogFiles(tmp_path), ConsumeOptions(), notes.append)
    task = asyncio.create_task(writer.run())
    await publish(js, stream, "h", 1, 1)

    async def written() -> bool:
        return writer.status.lines == 1

    await until(written, "the line")
    writer.stop()
    await task
    assert notes == ["waiting for the server: nobody leads", "the server is back"]


async def test_a_consumer_that_stops_after_a_few_is_acknowledged_in_time(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    await publish(js, stream, "h", 1, 50)
    config = ConsumerConfig(durable_name="few", ack_policy=AckPolicy.ALL, max_ack_pending=20)
    consumer = await stream.create_consumer(config)
    await Running(js, consumer, LogFiles(tmp_path), once=True).end()
    assert lines(tmp_path / "h.log") == expected("h", 1, 50)
    short = await stream.create_consumer(config.replace(durable_name="short", ack_wait=1.0))
    with pytest.raises(UsageError, match="less than the ack_wait"):
        LogConsumer(js, short, LogFiles(tmp_path), ConsumeOptions(ack_interval=1.0), print)


async def test_an_acknowledgement_that_is_due_does_not_wait_for_the_disk(
    js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    consumer = await make(stream, policy=AckPolicy.ALL)
    slow = threading.Event()

    class Slow(LogFiles):
        def append(self, host: str, lines: Sequence[bytes]) -> Appended:
            if host == "slow":
                slow.wait(LONG)
            return super().append(host, lines)

    running = Running(js, consumer, Slow(tmp_path), ack_interval=0.3)
    await publish(js, stream, "fast", 1, 3)

    async def written() -> bool:
        return running.writer.status.lines == 3

    await until(written, "three lines")
    await publish(js, stream, "slow", 1, 1)

    async def acked() -> bool:
        return (await consumer.info()).ack_floor.stream_seq == 3

    await until(acked, "three acknowledged while the fourth is written")
    slow.set()
    await running.stop()
