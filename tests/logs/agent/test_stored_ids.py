"""What the stream has and no position says: after a crash it is read back, and not stored again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jetspark
from jetspark import JetStream, Stream, StreamConfig
from jetspark.logs.control.switch import set_switch
from jetspark.server import Server, run
from tests.cli.support import Process
from tests.logs.support import lines_of, ship_once, shipping, stored, until

TEXT = [b"line %d" % number for number in range(2000)]


def positions_of(logs: Path) -> Any:
    return json.loads((logs / "positions.json").read_bytes())


def crash(logs: Path, since: float) -> None:
    """Leave the positions as an agent does that dies when it has stored everything and noted nothing."""
    positions = positions_of(logs)
    assert positions["since"] is None  # it ended well
    positions["since"] = since
    positions["files"][0].update(offset=0, tail="")
    (logs / "positions.json").write_text(json.dumps(positions))


async def window_is_over(js: JetStream, stream: Stream) -> None:
    """Wait until the stream has forgotten all ids that it knows."""
    subject = f"{stream.name.lower()}.probe"

    async def forgotten() -> bool:
        await asyncio.sleep(0.15)
        return not (await js.publish(subject, msg_id="probe")).duplicate

    await js.publish(subject, msg_id="probe")
    await until(forgotten, "the end of the duplicate window")
    await stream.purge(subject=subject)


async def test_an_agent_that_was_killed_long_ago_stores_every_line_once(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    path = logs / "a.log"
    lines = [b"line %d" % number for number in range(20_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    command = ("ship", path, "--positions", logs / "positions.json", "--host", "h", "--metrics", "0")
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        config = StreamConfig(name="LOGS", subjects=["logs.>"], duplicate_window=0.1)
        stream = await js.create_stream(config)
        running = process(*command, "--window", 1)  # slow, so that it is killed on the way
        await stored(stream, 100)
        running.signal(signal.SIGKILL)
        running.end()
        await window_is_over(js, stream)
        there = (await stream.info()).state.messages
        assert there < 20_000, "it was too quick to be killed on the way"
        result = process(*command, "--once", "--json").end()
        assert (result.code, result.err) == (0, "")
        assert await lines_of(stream) == lines
        assert result.records[-1]["lines"] > 20_000 - there  # some were there, and not noted


async def test_what_is_read_back_is_not_shipped_and_what_is_new_is(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    await stream.update(stream.config.replace(duplicate_window=0.1))
    (logs / "a.log").write_bytes(b"\n".join(TEXT) + b"\n")
    began = (await stream.info()).created.timestamp()
    await ship_once(js, stream, logs)
    await stream.delete_message(1000)
    await window_is_over(js, stream)
    crash(logs, began)
    with (logs / "a.log").open("ab") as file:
        file.write(b"new\n")
    status = (await ship_once(js, stream, logs)).agent.status()
    assert (status.lines, status.duplicates) == (2001, 1999)
    assert await lines_of(stream) == [*TEXT[:999], *TEXT[1000:], TEXT[999], b"new"]
    assert positions_of(logs)["since"] is None


async def test_a_file_that_comes_back_later_is_known_all_the_same(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    await stream.update(stream.config.replace(duplicate_window=0.1))
    (logs / "a.log").write_bytes(b"\n".join(TEXT) + b"\n")
    began = (await stream.info()).created.timestamp()
    await ship_once(js, stream, logs)
    await window_is_over(js, stream)
    crash(logs, began)
    (logs / "a.log").rename(logs.parent / "elsewhere")  # as on a disk that is not there yet
    (logs / "b.log").write_bytes(b"other\n")
    await ship_once(js, stream, logs)
    (logs.parent / "elsewhere").rename(logs / "a.log")
    await ship_once(js, stream, logs)
    assert await lines_of(stream) == [*TEXT, b"other"]


async def test_a_second_crash_forgets_nothing_of_the_first(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"], duplicate_window=0.1))
        (logs / "a.log").write_bytes(b"\n".join(TEXT) + b"\n")
        began = (await stream.info()).created.timestamp()
        await ship_once(js, stream, logs)
        await window_is_over(js, stream)
        crash(logs, began)
        await set_switch(js, paused=True)
        (logs / "b.log").write_bytes(b"other\n")
        async with shipping(js, stream, logs, control=True) as running:  # it cannot pass what it knows
            await running.says("paused")
        assert positions_of(logs)["since"] == began
        await set_switch(js, paused=False)
        await ship_once(js, stream, logs)
        assert sorted(await lines_of(stream)) == sorted([*TEXT, b"other"])


async def test_a_stream_that_keeps_nothing_is_protected_by_its_window(server: Server, logs: Path) -> None:
    (logs / "a.log").write_bytes(b"\n".join(TEXT) + b"\n")
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        config = StreamConfig(name="LOGS", subjects=["logs.>"], retention="workqueue")
        stream = await js.create_stream(config)
        await ship_and_crash(js, stream, logs)


async def test_a_stream_that_may_not_be_read_is_protected_by_its_window(logs: Path) -> None:
    (logs / "a.log").write_bytes(b"\n".join(TEXT) + b"\n")
    config = """authorization { users = [
        { user: u, password: p, permissions: { publish: { deny: ["$JS.API.STREAM.MSG.GET.>"] } } } ] }"""
    with run(config=config) as server:
        async with await jetspark.connect(server.url, user="u", password="p") as nc:
            js = nc.jetstream()
            stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
            await ship_and_crash(js, stream, logs)


async def ship_and_crash(js: JetStream, stream: Stream, logs: Path) -> None:
    """Ship twice; the second time the agent can read nothing back."""
    began = (await stream.info()).created.timestamp()
    await ship_once(js, stream, logs)
    crash(logs, began)
    running = await ship_once(js, stream, logs)
    assert ["read back" in note for note in running.notes] == [True]
    assert running.agent.status().duplicates == 2000
    assert (await stream.info()).state.messages == 2000
