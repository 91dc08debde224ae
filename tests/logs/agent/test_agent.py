"""The agent and what it ships to: streams that refuse, servers that go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import jetspark
from jetspark import JetStream, Stream, StreamConfig
from jetspark.errors import NoStreamForSubject, PublishError, UsageError
from jetspark.logs.agent.options import ShipOptions
from jetspark.server import Server
from tests.logs.support import lines_of, ship_once, shipping, stored, until
from tests.support.cases import for_each
from tests.support.consuming import freeze


def write(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        file.write("".join(f"w-{number}\n" for number in range(first, last + 1)))


async def test_a_stream_that_is_not_there_yet_is_waited_for(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    config = stream.config
    await stream.delete()
    write(logs / "a.log", 1, 1000)
    async with shipping(js, stream, logs) as running:
        await running.says("the stream rejects lines")
        stream = await js.create_stream(config)
        await stored(stream, 1000)
    assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 1001)]


async def test_what_there_is_is_shipped_once_or_an_error(js: JetStream, stream: Stream, logs: Path) -> None:
    write(logs / "a.log", 1, 10)
    with pytest.raises(PublishError) as caught:
        await ship_once(js, stream, logs, prefix="nobody.stores.this")
    assert isinstance(caught.value.__cause__, NoStreamForSubject)
    await ship_once(js, stream, logs)  # and its position was not moved
    assert len(await lines_of(stream)) == 10


async def test_a_full_stream_is_waited_for_and_every_line_is_stored_once(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    await stream.update(stream.config.replace(max_msgs=500, discard="new"))
    write(logs / "a.log", 1, 5000)
    async with shipping(js, stream, logs) as running:
        await running.says("the stream rejects lines")
        await stream.update(stream.config.replace(max_msgs=-1))
        await stored(stream, 5000)
    assert sorted(await lines_of(stream)) == sorted(b"w-%d" % number for number in range(1, 5001))


async def test_lines_that_are_shipped_again_are_stored_once(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    write(logs / "a.log", 1, 2000)
    await ship_once(js, stream, logs)
    (logs / "positions.json").unlink()  # as if it had died before it could note anything
    again = await ship_once(js, stream, logs)
    assert again.agent.status().duplicates == 2000
    assert len(await lines_of(stream)) == 2000


async def test_a_server_that_is_killed_and_comes_back_gets_every_line_once_and_in_order(
    server: Server, logs: Path
) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        async with shipping(js, stream, logs):
            for round_ in range(3):
                write(logs / "a.log", 4000 * round_ + 1, 4000 * round_ + 2000)
                await stored(stream, 4000 * round_ + 100)
                server.kill()
                write(logs / "a.log", 4000 * round_ + 2001, 4000 * round_ + 4000)
                server.start()
            await stored(stream, 12_000)
        assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 12_001)]


async def test_lines_under_way_outlive_a_server_though_their_file_does_not(
    server: Server, logs: Path
) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        async with shipping(js, stream, logs) as running:
            write(logs / "a.log", 1, 1)
            await stored(stream, 1)
            await freeze(server)
            write(logs / "a.log", 2, 1000)

            async def read() -> bool:
                return running.agent.status().behind == 0 and running.agent.status().in_flight == 999

            await until(read, "999 lines under way")
            (logs / "a.log").write_bytes(b"")
            await running.says("was truncated")
            server.resume()
            await stored(stream, 1000)
        assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 1001)]


async def test_memory_is_bounded_by_the_window(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(logs / "a.log", 1, 1)
        async with shipping(js, stream, logs, window=500) as running:
            await stored(stream, 1)
            await freeze(server)
            write(logs / "a.log", 2, 5000)

            async def full() -> bool:
                return running.agent.status().in_flight == 500

            await until(full, "a full window")
            assert running.agent.status().behind > 0
            server.resume()
            await stored(stream, 5000)
            assert running.agent.status().in_flight <= 500


async def test_a_stream_that_is_full_for_a_line_gets_the_others_once(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    await stream.update(stream.config.replace(max_bytes=6000, discard="new", duplicate_window=0.1))
    (logs / "a.log").write_text("x" * 3000 + "\n" + "y" * 3000 + "\nsmall\n")
    async with shipping(js, stream, logs) as running:

        async def refused_again_and_again() -> bool:
            return len(running.notes) >= 2  # in between the window of the stream is over

        await until(refused_again_and_again, "two refusals")
        assert [line[:5] for line in await lines_of(stream)] == [b"xxxxx", b"small"]
        await stream.update(stream.config.replace(max_bytes=-1))
        await stored(stream, 3)
    assert [line[:5] for line in await lines_of(stream)] == [b"xxxxx", b"small", b"yyyyy"]
    assert running.agent.status().lines == 3


async def test_positions_advance_to_the_last_line_stored_before_a_rejection(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    await stream.update(stream.config.replace(max_msgs=10, discard="new"))
    write(logs / "a.log", 1, 30)
    with pytest.raises(PublishError):
        await ship_once(js, stream, logs)
    (entry,) = json.loads((logs / "positions.json").read_bytes())["files"]
    assert entry["offset"] == len("".join(f"w-{number}\n" for number in range(1, 11)))
    await stream.update(stream.config.replace(max_msgs=-1))
    await ship_once(js, stream, logs)
    assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 31)]


async def test_a_file_that_is_rotated_away_while_the_stream_is_silent_is_not_lost(
    server: Server, logs: Path
) -> None:
    path = logs / "app.log"
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(path, 1, 1)
        async with shipping(js, stream, logs, window=10, patterns=[str(path)]) as running:
            await stored(stream, 1)
            await freeze(server)
            write(path, 2, 100)  # more than the window takes
            for number in (1, 2):
                path.rename(logs / f"app.log.{number}")
                write(path, 100 + number, 100 + number)
                await running.follows(1 + number)
            server.resume()
            await stored(stream, 102)
        assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 103)]


async def test_an_agent_with_nothing_under_way_ends_though_the_server_is_away(
    server: Server, logs: Path
) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(logs / "a.log", 1, 10)

        async def disconnected() -> bool:
            return not nc.connected

        async with shipping(js, stream, logs, control=True, grace=600.0) as running:
            await stored(stream, 10)
            server.kill()
            await until(disconnected, "the end of the connection")
            write(logs / "a.log", 11, 20)

            async def waits() -> bool:
                return running.agent.status().behind == 0

            await until(waits, "lines that wait for a connection")
        assert running.agent.status().in_flight == 0
        server.start()


@for_each(
    "options",
    [
        {"partitions": 0},
        {"window": 0},
        {"max_line": 10},
        {"poll": 0.0},
        {"host": ""},
        {"compress": "br"},
        {"prefix": "a b"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ShipOptions(**options)
