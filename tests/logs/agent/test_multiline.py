"""Events of several lines: rotated, truncated and interrupted, each is stored whole and once."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import jetspark
from jetspark import JetStream, Stream, StreamConfig
from jetspark.logs.agent.agent import Agent
from jetspark.logs.agent.multiline import Multiline
from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.logs.agent.writers import LogWriter, kill_again_and_again
from tests.logs.support import LONG, lines_of, read_all, ship_once, shipping, stored, until
from tests.support.effort import effort
from tests.support.ledger import Ledger

#: Never times out in a test.
PATIENT = Multiline(continuation=" ", timeout=10 * LONG)
HASTY = Multiline(continuation=" ", timeout=0.05)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_an_event_is_one_message_with_the_id_of_its_first_byte(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "a\n b\nc\nd\n e\n f")
    await ship_once(js, stream, logs, multiline=PATIENT)
    messages = await read_all(stream)
    assert [message.data for message in messages] == [b"a\n b", b"c", b"d\n e\n f"]
    assert [message.headers["Jetspark-Offset"] for message in messages] == ["0", "5", "7"]
    assert [message.headers["Nats-Msg-Id"].rpartition("-")[2] for message in messages] == ["0", "5", "7+7"]
    # Without its end, the last one was shipped by `once`: what follows is another event.
    append(logs / "a.log", "oot\n g\n")
    await ship_once(js, stream, logs, multiline=PATIENT)
    assert (await lines_of(stream))[3:] == [b"oot\n g"]


async def test_an_event_waits_for_its_end(js: JetStream, stream: Stream, logs: Path) -> None:
    path = logs / "a.log"
    async with shipping(js, stream, logs, multiline=PATIENT):
        append(path, "a\nb\n")
        await stored(stream, 1)
        append(path, " c\n d")
        append(path, "\ne\n")
        await stored(stream, 2)
    assert await lines_of(stream) == [b"a", b"b\n c\n d"]
    async with shipping(js, stream, logs, multiline=PATIENT):  # The open event is read again.
        append(path, " f\ng\n")
        await stored(stream, 3)
    assert (await lines_of(stream))[2:] == [b"e\n f"]


async def test_an_event_ends_after_a_while_without_new_lines(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "a\n b\nincomplete")
    async with shipping(js, stream, logs, multiline=HASTY) as running:
        await stored(stream, 1)
        assert running.agent.status().behind == len("incomplete")
        append(logs / "a.log", "\n c\n")
        await stored(stream, 2)
    assert await lines_of(stream) == [b"a\n b", b"incomplete\n c"]


async def test_an_event_that_grows_after_a_crash_keeps_its_end(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    path, positions = logs / "a.log", logs / "positions.json"
    append(path, "a\n b\n")
    async with shipping(js, stream, logs, multiline=HASTY):
        await stored(stream, 1)
    document = json.loads(positions.read_text())
    (entry,) = document["files"]
    assert (entry["offset"], entry["ends"]) == (5, [5])
    # As if it had died before it could save that the event is stored.
    entry["offset"], entry["tail"], document["since"] = 0, "", time.time() - 60
    positions.write_text(json.dumps(document))
    append(path, " c\nd\n")
    await ship_once(js, stream, logs, multiline=PATIENT)
    assert await lines_of(stream) == [b"a\n b", b" c", b"d"]


async def test_the_end_of_an_event_is_on_disk_before_the_event_is_sent(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    append(logs / "a.log", "a\n b\n")
    config = stream.config
    await stream.delete()
    async with shipping(js, stream, logs, multiline=HASTY) as running:
        await running.says("the stream rejects lines")
        (entry,) = json.loads((logs / "positions.json").read_text())["files"]
        assert (entry["offset"], entry["ends"]) == (0, [5])
        stream = await js.create_stream(config)
        append(logs / "a.log", " c\n")
        await stored(stream, 2)
    assert await lines_of(stream) == [b"a\n b", b" c"]


async def test_positions_of_an_older_version_are_read(js: JetStream, stream: Stream, logs: Path) -> None:
    path, positions = logs / "a.log", logs / "positions.json"
    append(path, "a\n b\nc\n")
    await ship_once(js, stream, logs)
    document = json.loads(positions.read_text())
    for entry in document["files"]:
        del entry["ends"], entry["input"]
    positions.write_text(json.dumps(document))
    append(path, " d\ne\n")
    await ship_once(js, stream, logs, multiline=PATIENT)
    assert await lines_of(stream) == [b"a", b" b", b"c", b" d", b"e"]


async def test_a_file_that_is_renamed_in_the_middle_of_an_event_gets_its_rest(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    path, rotated = logs / "a.log", logs / "a.log.1"
    # Long enough to write the rest before the renamed file is closed.
    async with shipping(js, stream, logs, multiline=PATIENT, close_after=2.0) as running:
        append(path, "a\n b\n")
        await running.follows(1)
        with path.open("a") as writer:
            path.rename(rotated)
            append(path, "x\ny\n")
            await running.follows(2)
            writer.write(" c\n")
        await stored(stream, 2)  # When the renamed file is closed, its last event ends.
    assert sorted(await lines_of(stream)) == [b"a\n b\n c", b"x"]


async def test_an_event_outlives_the_truncation_of_its_file(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    path = logs / "a.log"
    append(path, "a\n b\n")
    async with shipping(js, stream, logs, multiline=PATIENT) as running:
        await _holds(running.agent, b"a\n b\n")
        path.write_text("")  # As long as what was sent of it.
        await stored(stream, 1)
        append(path, "x\n")
        await _holds(running.agent, b"x\n")
        path.write_text("yy\n z\nlonger than before\n")
        await stored(stream, 3)
    messages = await read_all(stream)
    assert [message.data for message in messages] == [b"a\n b", b"x", b"yy\n z"]
    assert len({message.headers["Nats-Msg-Id"].rpartition("-")[0] for message in messages}) == 3


async def _holds(agent: Agent, data: bytes) -> None:
    """Wait until the agent has read an event that may continue."""

    async def does() -> bool:
        files = agent._watched.files.values()
        return [file.held for file in files] == [data]

    await until(does, f"{data!r} is held")


async def test_an_event_is_bounded(js: JetStream, stream: Stream, logs: Path) -> None:
    body = "".join(f" {number:0>99}\n" for number in range(50))
    append(logs / "a.log", f"a\n{body}b\n")
    await ship_once(js, stream, logs, multiline=Multiline(continuation=" ", max_lines=20), max_line=1024)
    messages = await read_all(stream)
    cut = [message.headers.get("Jetspark-Cut") == "true" for message in messages]
    assert (cut[-2:], set(cut[:-2])) == ([False, False], {True})
    assert b"".join(message.data for message in messages[:-1]) + b"\n" == f"a\n{body}".encode()
    assert all(len(message.data) <= 1025 for message in messages)


def test_the_command_joins_the_lines_of_a_container_and_the_traces_in_them(cli: Cli, logs: Path) -> None:
    lines = ("P a", "F b", "F \tat c", "P \tat ", "F d", "F e")
    append(logs / "0.log", "".join(f"2026-01-31T12:00:00Z stderr {line}\n" for line in lines))
    arguments = ("ship", logs / "*.log", "--once", "--no-control", "--create", "LOGS")
    assert cli.json(*arguments, "--container", "cri", "--multiline", "java")["lines"] == 2
    other = cli.json(*arguments, "--container", "cri", "--positions", logs / "other.json", "--host", "other")
    assert other["lines"] == 4


async def test_events_whose_parts_alternate_are_sent_together(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    pair = "T stdout P {0}\nT stderr F {0}\nT stdout F {0}\n"
    append(logs / "a.log", "T stdout F first\n" + "".join(pair.format(number) for number in range(300)))
    await ship_once(js, stream, logs, multiline=Multiline(container="cri"))
    (entry,) = json.loads((logs / "positions.json").read_text())["files"]
    assert entry["offset"] == (logs / "a.log").stat().st_size
    events = ("T stdout P {0}\nT stdout F {0}", "T stderr F {0}")
    assert [line.decode() for line in (await lines_of(stream))[1:]] == [
        event.format(number) for number in range(300) for event in events
    ]


async def test_an_event_that_is_stored_before_one_that_alternates_with_it_is_not_sent_again(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    long = "x" * 2000
    append(logs / "a.log", f"T stdout P a\nT stderr P {long}\nT stdout F b\nT stderr F c\nT stdout F d\n")
    await stream.update(stream.config.replace(max_msg_size=1000, duplicate_window=0.1))
    async with shipping(js, stream, logs, multiline=Multiline(container="cri")) as running:
        await running.says("the stream rejects lines")
        await stream.update(stream.config.replace(max_msg_size=-1, duplicate_window=0.1))
        await stored(stream, 3)
    assert sorted(await lines_of(stream)) == sorted(
        [b"T stdout P a\nT stdout F b", f"T stderr P {long}\nT stderr F c".encode(), b"T stdout F d"]
    )


async def test_standard_input_is_joined_and_times_out(
    server: Server, process: Callable[..., Process]
) -> None:
    arguments = ("ship", "--create", "LOGS", "--json", "--metrics", "0")
    running = process(*arguments, "--multiline", "python", "--multiline-timeout", "200ms", stdin=-1)
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"a\nTraceback (most recent call last):\n  File\nValueError: b\n")
    running.popen.stdin.flush()
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()

        async def is_there() -> bool:
            return "LOGS" in [name async for name in js.stream_names()]

        await until(is_there, "the stream")
        stream = await js.get_stream("LOGS")
        await stored(stream, 1)
        running.popen.stdin.write(b"c\n d\ne")
        assert running.end().records[-1]["lines"] == 3
        assert (await lines_of(stream))[1:] == [b"c\n d", b"e"]


def trace(chance: random.Random, name: Callable[[], bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    """A line, and up to 5 lines of a stack trace."""
    made = name()
    event = made + b"".join(b"\n\tat %b.%d" % (made, line) for line in range(chance.randrange(6)))
    return event + b"\n", {made: event}


def container(chance: random.Random, name: Callable[[], bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    """A line of each output, in up to 4 parts, which alternate."""
    events: dict[bytes, bytes] = {}
    outputs: dict[bytes, list[bytes]] = {}
    for output in (b"stdout", b"stderr"):
        made = name()
        tags = [b"P"] * chance.randrange(4) + [b"F"]
        outputs[output] = [b"2026-01-31T12:00:00Z %b %b %b " % (output, tag, made) for tag in tags]
        events[made] = b"\n".join(outputs[output])
    order = [output for output, lines in outputs.items() for _ in lines]
    chance.shuffle(order)
    return b"".join(outputs[output].pop(0) + b"\n" for output in order), events


CONFIG = """
host = "h"
create = "LOGS"
positions = "positions.json"

[input.service]
files = ["service.log*"]
multiline = { preset = "java", timeout = 600 }

[input.pod]
files = ["pod.log*"]
prefix = "pods"
container = "cri"
multiline = { timeout = 600 }
"""


@pytest.mark.faults
async def test_an_agent_that_is_killed_while_files_rotate_stores_every_event_whole_and_once(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    ledger = Ledger()
    (logs / "shipper.toml").write_text(CONFIG)
    command = ("ship", "--config", logs / "shipper.toml", "--json")
    writers = [
        LogWriter(ledger, "service", logs / "service.log", trace),
        LogWriter(ledger, "pod", logs / "pod.log", container),
    ]
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>", "pods.>"]))
        await kill_again_and_again(
            lambda: process(*command, "--metrics", "200ms"), stream, ledger, writers, effort(3, 20)
        )
        ledger.acknowledge_all()
        result = process(*command, "--once").end()
        assert (result.code, result.err) == (0, "")
        names = {event: name for writer in writers for event, name in writer.names.items()}
        for message in await read_all(stream):
            ledger.read(names.get(message.data, message.data))
    ledger.verify(complete=True, ordered=False)
