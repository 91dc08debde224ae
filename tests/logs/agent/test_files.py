"""What happens to log files: they grow, are rotated, truncated, replaced, and end in the middle of a line."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from jetspark import JetStream, Stream
from jetspark.errors import UsageError
from jetspark.logs.agent.file import TailedFile
from jetspark.logs.agent.positions import Positions
from jetspark.logs.agent.reader import FileReader
from tests.logs.support import lines_of, read_all, ship_once, shipping, stored, until


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


async def test_lines_are_shipped_with_host_file_and_offset(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "one\ntwo\n\nfour\r\n")
    await ship_once(js, stream, logs)
    messages = await read_all(stream)
    assert [message.data for message in messages] == [b"one", b"two", b"", b"four\r"]
    assert [message.headers["Jetspark-Offset"] for message in messages] == ["0", "4", "8", "9"]
    assert {message.headers["Jetspark-Host"] for message in messages} == {"web1"}
    assert {message.headers["Jetspark-File"] for message in messages} == {str(logs / "a.log")}
    (subject,) = {message.subject for message in messages}
    prefix, partition, host = subject.split(".")
    assert (prefix, host) == (stream.name.lower(), "web1")
    assert 0 <= int(partition) < 16


async def test_what_was_shipped_is_not_shipped_again(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "one\n")
    assert (await ship_once(js, stream, logs)).agent.status().lines == 1
    append(logs / "a.log", "two\n")
    second = (await ship_once(js, stream, logs)).agent.status()
    assert (second.lines, second.duplicates, second.state) == (1, 0, "stopped")
    assert await lines_of(stream) == [b"one", b"two"]


async def test_a_last_line_waits_for_its_end(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "whole\nhal")
    async with shipping(js, stream, logs):
        await stored(stream, 1)
        append(logs / "a.log", "f\nnext")
        await stored(stream, 2)
        append(logs / "a.log", "\n")
        await stored(stream, 3)
    assert await lines_of(stream) == [b"whole", b"half", b"next"]


async def test_the_first_line_may_come_letter_by_letter(js: JetStream, stream: Stream, logs: Path) -> None:
    (logs / "a.log").touch()
    append(logs / "b.log", "mark\n")
    async with shipping(js, stream, logs, from_end=True) as running:
        await running.follows(2)
        for letter in "first\n":
            append(logs / "a.log", letter)
        await stored(stream, 1)
        append(logs / "a.log", "second\n")
        await stored(stream, 2)
    assert await lines_of(stream) == [b"first", b"second"]


async def test_files_that_appear_later_are_followed_from_their_start(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "old.log", "before\n")
    async with shipping(js, stream, logs, from_end=True) as running:
        await running.follows(1)
        append(logs / "new.log", "from the start\n")
        await stored(stream, 1)
        append(logs / "old.log", "after\n")
        await stored(stream, 2)
    assert await lines_of(stream) == [b"from the start", b"after"]


async def test_the_end_of_a_file_is_the_end_of_its_last_whole_line(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "before\nbeg")
    async with shipping(js, stream, logs, from_end=True) as running:
        await running.follows(1)
        append(logs / "a.log", "un\n")
        await stored(stream, 1)
    assert await lines_of(stream) == [b"begun"]


async def test_a_file_that_is_renamed_is_read_to_its_end(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "one\n")
    with (logs / "a.log").open("ab", buffering=0) as writer:  # as a daemon that keeps its file open
        async with shipping(js, stream, logs):
            await stored(stream, 1)
            (logs / "a.log").rename(logs / "a.log.1")
            append(logs / "a.log", "new file\n")
            await stored(stream, 2)
            writer.write(b"late\n")
            await stored(stream, 3)
    messages = await read_all(stream)
    assert [message.data for message in messages] == [b"one", b"new file", b"late"]
    assert {message.headers["Jetspark-File"] for message in messages} == {str(logs / "a.log")}


async def test_a_file_that_is_renamed_within_the_pattern_is_not_shipped_twice(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    patterns = [str(logs / "a.log*")]
    append(logs / "a.log", "one\n")
    async with shipping(js, stream, logs, patterns=patterns):
        await stored(stream, 1)
        (logs / "a.log").rename(logs / "a.log.1")
        append(logs / "a.log", "two\n")
        await stored(stream, 2)
    await ship_once(js, stream, logs, patterns=patterns)
    assert await lines_of(stream) == [b"one", b"two"]


async def test_a_file_that_is_renamed_while_somebody_looks_stays_before_its_successor(
    js: JetStream, stream: Stream, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, stat = logs / "a.log", os.stat
    append(path, "one\n")

    def late(name: Any, **options: Any) -> os.stat_result:
        if name == str(path) and not (logs / "a.log.1").exists():
            path.rename(logs / "a.log.1")  # when the names were listed, and before it is looked at
            append(path, "two\n")
        return stat(name, **options)

    monkeypatch.setattr(os, "stat", late)
    await ship_once(js, stream, logs, patterns=[str(logs / "a.log*")])
    assert await lines_of(stream) == [b"one", b"two"]


async def test_a_file_that_was_renamed_while_no_agent_ran_is_finished(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "one\n")
    await ship_once(js, stream, logs)
    append(logs / "a.log", "two\n")
    (logs / "a.log").rename(logs / "a.log.1")
    append(logs / "a.log", "three\n")
    await ship_once(js, stream, logs)
    assert sorted(await lines_of(stream)) == [b"one", b"three", b"two"]


async def test_the_rest_of_a_renamed_file_is_shipped_when_nothing_more_comes(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "one\nwithout an end")
    async with shipping(js, stream, logs, close_after=0.1) as running:
        await stored(stream, 1)
        (logs / "a.log").unlink()
        await stored(stream, 2)
        await running.follows(0)
    assert await lines_of(stream) == [b"one", b"without an end"]


async def test_a_file_that_is_truncated_begins_anew(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "same\none\n")
    async with shipping(js, stream, logs) as running:
        await stored(stream, 2)
        os.truncate(logs / "a.log", 0)  # what copytruncate does
        append(logs / "a.log", "same\n")  # and the same id, were it not for the truncation
        await stored(stream, 3)
        await running.says("was truncated")
        append(logs / "a.log", "two\n")
        await stored(stream, 4)
    assert await lines_of(stream) == [b"same", b"one", b"same", b"two"]


async def test_a_truncation_is_seen_though_the_file_is_longer_again(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "short\n")
    async with shipping(js, stream, logs) as running:
        await stored(stream, 1)
        with (logs / "a.log").open("r+b") as file:  # in one go, so that nobody sees it short
            file.write(b"another, longer line\nand one more\n")
        await stored(stream, 3)
        await running.says("was truncated")
    assert await lines_of(stream) == [b"short", b"another, longer line", b"and one more"]


async def test_a_truncation_while_no_agent_ran_is_seen(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "same\none\n")
    await ship_once(js, stream, logs)
    (logs / "a.log").write_bytes(b"same\ntwo, and longer than before\n")
    await ship_once(js, stream, logs)
    assert await lines_of(stream) == [b"same", b"one", b"same", b"two, and longer than before"]


async def test_another_file_with_the_inode_of_one_that_is_gone_is_another_file(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    for _ in range(3):  # most file systems give the inode away again at once
        append(logs / "a.log", "same line\n")
        before = (await stream.info()).state.messages
        async with shipping(js, stream, logs, close_after=0.05) as running:
            await stored(stream, before + 1)
            (logs / "a.log").unlink()
            await running.follows(0)
    assert await lines_of(stream) == [b"same line"] * 3


async def test_long_lines_come_in_pieces_that_say_so(js: JetStream, stream: Stream, logs: Path) -> None:
    long = bytes(range(33, 127)) * 20
    append(logs / "a.log", long + b"\nshort\n" + b"y" * 600)
    await ship_once(js, stream, logs, max_line=512)
    messages = await read_all(stream)
    pieces = messages[:4]
    assert b"".join(message.data for message in pieces) == long
    assert ["Jetspark-Cut" in message.headers for message in messages] == [True] * 3 + [False] * 2 + [
        True,
        False,
    ]
    assert [message.data for message in messages[4:]] == [b"short", b"y" * 512, b"y" * 88]


async def test_a_line_larger_than_the_server_takes_is_cut(js: JetStream, stream: Stream, logs: Path) -> None:
    line = b"z" * 3_000_000
    append(logs / "a.log", line + b"\n")
    await ship_once(js, stream, logs, max_line=8 * 1024 * 1024)
    assert b"".join(await lines_of(stream)) == line


async def test_bytes_that_are_no_text_are_kept(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", b"\xff\xfe\x00latin \xe9\n\x80\n")
    await ship_once(js, stream, logs)
    assert await lines_of(stream) == [b"\xff\xfe\x00latin \xe9", b"\x80"]


async def test_compressed_and_unreadable_things_are_left_out(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log.gz", "binary\n")
    (logs / "directory.log").mkdir()
    os.mkfifo(logs / "fifo.log")
    (logs / "dangling.log").symlink_to(logs / "nowhere")
    append(logs / "a.log", "text\n")
    shipped = await ship_once(
        js, stream, logs, patterns=[str(logs / "*")], exclude=("*.gz", "positions*", ".pos*")
    )
    assert await lines_of(stream) == [b"text"]
    assert shipped.notes == [f"cannot read {logs / 'fifo.log'}: it is a FIFO, not a regular file"]


async def test_many_files_keep_their_order(js: JetStream, stream: Stream, logs: Path) -> None:
    for writer in range(5):
        append(logs / f"{writer}.log", "".join(f"{writer}-{n}\n" for n in range(1, 3001)))
    await ship_once(js, stream, logs)
    lines = await lines_of(stream)
    for writer in range(5):
        own = [line for line in lines if line.startswith(b"%d-" % writer)]
        assert own == [b"%d-%d" % (writer, n) for n in range(1, 3001)]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_payloads_can_be_compressed(js: JetStream, stream: Stream, logs: Path, encoding: str) -> None:
    append(logs / "a.log", "GET / 200 " * 100 + "\nshort\n")
    await ship_once(js, stream, logs, compress=encoding)
    long, short = await read_all(stream)
    assert long.headers["Content-Encoding"] == encoding
    assert len(long.data) < 500
    assert "Content-Encoding" not in short.headers


async def test_two_agents_cannot_share_positions(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "one\n")
    async with shipping(js, stream, logs):
        await stored(stream, 1)
        with pytest.raises(UsageError, match="another agent uses the positions"):
            await ship_once(js, stream, logs)


async def test_damaged_positions_are_an_error(js: JetStream, stream: Stream, logs: Path) -> None:
    append(logs / "a.log", "one\n")
    for damage in (b"", b"{}", b'{"version": 99, "files": []}', b"\xff"):
        (logs / "positions.json").write_bytes(damage)
        with pytest.raises(UsageError, match=r"is not a valid position file: .*Delete it to start over"):
            await ship_once(js, stream, logs)
    assert await lines_of(stream) == []


async def test_positions_are_for_their_owner_and_leave_nothing_beside_them(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "one\n")
    await ship_once(js, stream, logs)
    assert (logs / "positions.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in logs.iterdir()) == [
        "a.log",
        "positions.json",
        "positions.json.lock",
    ]


@pytest.mark.parametrize(
    "host", ["../../etc", "a b\r\nPUB x 0", "logs.>", "*", "web\x1b[2J", "\udcff", "ü" * 300]
)
async def test_a_hostile_host_name_stays_one_token(
    js: JetStream, stream: Stream, logs: Path, host: str
) -> None:
    append(logs / "a.log", "one\n")
    await ship_once(js, stream, logs, host=host)
    (message,) = await read_all(stream)
    prefix, _, token = message.subject.split(".")
    assert prefix == stream.name.lower()
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert message.headers["Jetspark-Host"].isprintable()


async def test_a_hostile_file_name_stays_in_its_header(js: JetStream, stream: Stream, logs: Path) -> None:
    append(Path(os.fsdecode(os.fsencode(logs) + b"/x\r\nNats-Msg-Id: y\xff.log")), "one\n")
    await ship_once(js, stream, logs)
    (message,) = await read_all(stream)
    assert message.headers["Jetspark-File"].endswith("/x\\x0d\\x0aNats-Msg-Id: y\\xff.log")
    assert message.headers.get_all("Nats-Msg-Id")[0].startswith("web1-")


async def test_what_begins_at_its_end_does_so_the_first_time_only(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "before\n")
    await ship_once(js, stream, logs, from_end=True)
    (logs / "a.log").rename(logs / "a.log.1")
    append(logs / "a.log", "while no agent ran\n")
    await ship_once(js, stream, logs, from_end=True)
    assert await lines_of(stream) == [b"while no agent ran"]


async def test_a_last_line_that_grows_after_a_crash_is_not_taken_for_the_short_one(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "one\n")
    await ship_once(js, stream, logs)
    before = (logs / "positions.json").read_bytes()
    append(logs / "a.log", "abc")
    await ship_once(js, stream, logs)
    (logs / "positions.json").write_bytes(before)  # as one leaves it who dies before the save
    append(logs / "a.log", "def\n")
    await ship_once(js, stream, logs)
    assert await lines_of(stream) == [b"one", b"abc", b"abcdef"]


async def test_a_disk_that_gets_another_number_keeps_its_files(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "one\n")
    append(logs / "b.log", "other\n")
    await ship_once(js, stream, logs)
    (logs / "b.log").rename(logs / "b.log.1")
    append(logs / "b.log.1", "late\n")
    for _ in range(2):  # at each boot
        positions = json.loads((logs / "positions.json").read_bytes())
        for entry in positions["files"]:
            entry["device"] += 1
        (logs / "positions.json").write_text(json.dumps(positions))
        append(logs / "a.log", "more\n")
        assert (await ship_once(js, stream, logs)).agent.status().duplicates == 0
    messages = await read_all(stream)
    assert sorted(message.data for message in messages) == [b"late", b"more", b"more", b"one", b"other"]
    more = [message.headers["Nats-Msg-Id"] for message in messages if message.data == b"more"]
    assert len({each.rpartition("-")[0] for each in more}) == 1  # the number in the ids stays


async def test_a_file_that_cannot_be_read_does_not_affect_others(
    js: JetStream, stream: Stream, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs / "bad.log", "one\n")
    append(logs / "good.log", "one\n")
    bad, pread, fstat = (logs / "bad.log").stat().st_ino, os.pread, os.fstat

    def broken_read(fd: int, size: int, offset: int) -> bytes:
        if fstat(fd).st_ino == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, offset)

    def broken_state(fd: int) -> os.stat_result:
        status = fstat(fd)
        if status.st_ino == bad:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return status

    async with shipping(js, stream, logs) as running:
        await stored(stream, 2)
        for number, (name, broken) in enumerate((("pread", broken_read), ("fstat", broken_state))):
            with monkeypatch.context() as patched:
                patched.setattr(os, name, broken)
                append(logs / "bad.log", f"late {number}\n")
                await running.says(f"cannot read {logs / 'bad.log'}: ")
                append(logs / "good.log", f"{number}\n")
                await stored(stream, 3 + 2 * number)
            await stored(stream, 4 + 2 * number)  # when it can be read again
    assert len([note for note in running.notes if "cannot read" in note]) == 1
    assert len(await lines_of(stream)) == 6


async def test_many_new_files_are_one_save(
    js: JetStream, stream: Stream, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    write = Positions.write

    def counted(self: Positions, number: int, data: bytes) -> None:
        writes.append(number)
        write(self, number, data)

    monkeypatch.setattr(Positions, "write", counted)
    for number in range(200):
        append(logs / f"{number}.log", "one\n")
    await ship_once(js, stream, logs, save_every=60.0)
    assert (await stream.info()).state.messages == 200
    assert len(writes) <= 4


async def test_what_does_not_change_is_not_read(
    js: JetStream, stream: Stream, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    looks: list[int] = []
    read, ready = TailedFile.read, FileReader.ready

    def counted_read(self: TailedFile, size: int) -> bytes:
        reads.append(Path(self.position.path))
        return read(self, size)

    async def counted_look(self: FileReader) -> list[tuple[TailedFile, int]]:
        looks.append(1)
        return await ready(self)

    monkeypatch.setattr(TailedFile, "read", counted_read)
    monkeypatch.setattr(FileReader, "ready", counted_look)
    append(logs / "idle.log", "one\n")
    append(logs / "half.log", "one\nhal")
    async with shipping(js, stream, logs):
        await stored(stream, 2)

        looks.clear()

        async def looked_again() -> bool:
            return len(looks) >= 5

        await until(looked_again, "five looks")
        before = len(reads)
        append(logs / "new.log", "mark\n")
        await stored(stream, 3)
        assert {path.name for path in reads[before:]} == {"new.log"}
