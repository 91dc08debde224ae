"""The agent and what it ships to: streams that refuse, servers that go, the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

import jetspark
from jetspark import JetStream, Stream, StreamConfig
from jetspark.errors import NoStreamForSubject, PublishError, UsageError
from jetspark.server import Server
from jetspark.shipper.control import read_state, set_switch
from jetspark.shipper.options import ShipOptions
from tests.shipper.support import lines_of, ship_once, shipping, stored, until


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
        await running.says("the stream does not take lines")
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
        await running.says("the stream does not take lines")
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
            server.pause()
            write(logs / "a.log", 2, 1000)

            async def read() -> bool:
                return running.agent.status().behind == 0 and running.agent.status().under_way == 999

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
            server.pause()
            write(logs / "a.log", 2, 5000)

            async def full() -> bool:
                return running.agent.status().under_way == 500

            await until(full, "a full window")
            assert running.agent.status().behind > 0
            server.resume()
            await stored(stream, 5000)
            assert running.agent.status().under_way <= 500


async def test_a_paused_agent_publishes_nothing_and_then_everything(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))

        async def report(state: str, obeys: int) -> None:
            async def said() -> bool:
                agents = (await read_state(js)).agents
                return [(agent.state, agent.obeys >= obeys) for agent in agents] == [(state, True)]

            await until(said, f"an agent that is {state}")

        async with shipping(js, stream, logs, control=True):
            write(logs / "a.log", 1, 100)
            await stored(stream, 100)
            switch = await set_switch(js, paused=True)
            await report("paused", switch.sequence)
            write(logs / "a.log", 101, 200)
            # Another word: when it is obeyed, the agent has had the time to look at its files, and has not.
            switch = await set_switch(js, paused=True)
            await report("paused", switch.sequence)
            assert (await stream.info()).state.messages == 100
            switch = await set_switch(js, paused=False)
            await report("shipping", switch.sequence)
            await stored(stream, 200)
        await report("stopped", switch.sequence)
        assert await lines_of(stream) == [b"w-%d" % number for number in range(1, 201)]


async def test_an_agent_that_comes_late_obeys_and_goes_on_when_the_time_is_over(
    server: Server, logs: Path
) -> None:
    from datetime import UTC, datetime, timedelta

    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(logs / "a.log", 1, 10)
        await set_switch(js, paused=True, until=datetime.now(UTC) + timedelta(seconds=1.5))
        async with shipping(js, stream, logs, control=True) as running:
            await running.says("paused")
            assert (await stream.info()).state.messages == 0
            await stored(stream, 10)


async def test_the_switch_is_watched_through_a_restart(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(logs / "a.log", 1, 10)
        async with shipping(js, stream, logs, control=True) as running:
            await stored(stream, 10)
            server.restart()
            await set_switch(js, paused=True)
            await running.says("paused")
            server.restart()
            await set_switch(js, paused=False)
            await running.says("going on")
            write(logs / "a.log", 11, 20)
            await stored(stream, 20)


@pytest.mark.parametrize(
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
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ShipOptions(**options)  # type: ignore[arg-type]
