"""The agent as a process that dies, is told to end, or reads from a pipe."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import jetspark
from jetspark import StreamConfig
from jetspark.server import Server
from tests.cli.support import Process
from tests.logs.agent.writers import LogWriter, kill_again_and_again
from tests.logs.support import read_all, stored, until
from tests.support.effort import effort
from tests.support.ledger import Ledger
from tests.support.ports import held


def line(chance: random.Random, name: Callable[[], bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    made = name()
    return made + b"\n", {made: made}


async def test_an_agent_that_is_killed_goes_on_and_stores_every_line_once(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    wanted = [b"%d" % number for number in range(2000)]
    (logs / "a.log").write_bytes(b"\n".join(wanted[:1000]) + b"\n")
    command = ("ship", logs / "a.log", "--positions", logs / "p.json", "--json")
    async with jetspark.connect(server.url) as nc:
        stream = await nc.jetstream().create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        running = process(*command)
        await stored(stream, 1)
        running.signal(signal.SIGKILL)
        running.end()
        with (logs / "a.log").open("ab") as file:
            file.write(b"\n".join(wanted[1000:]) + b"\n")
        assert process(*command, "--once").end().code == 0
        assert [message.data for message in await read_all(stream)] == wanted


@pytest.mark.faults
async def test_an_agent_that_is_killed_again_and_again_stores_every_line_once(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    ledger = Ledger()
    files = ("ship", logs / "*.log*", "--positions", logs / "p.json", "--host", "h", "--json")
    writers = [LogWriter(ledger, name, logs / f"{name}.log", line) for name in ("one", "two")]
    async with jetspark.connect(server.url) as nc:
        stream = await nc.jetstream().create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        start = partial(process, *files, "--metrics", "200ms")
        await kill_again_and_again(start, stream, ledger, writers, effort(3, 20))
        ledger.acknowledge_all()
        result = start("--once").end()
        assert (result.code, result.err) == (0, "")
        for message in await read_all(stream):
            ledger.read(message.data)
    ledger.verify(complete=True)
    assert result.records[-1]["behind"] == 0


async def test_a_signal_ends_the_agent_well(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    for number, name in ((signal.SIGINT, "int"), (signal.SIGTERM, "term")):
        path = logs / f"{name}.log"
        path.write_text("".join(f"{n}\n" for n in range(20_000)))
        command = ("ship", path, "--create", "LOGS", "--json", "--metrics", "100ms")
        running = process(*command)
        assert running.line()
        running.signal(number)
        first = running.end()
        assert (first.code, first.err) == (0, "")
        assert first.records[-1]["under_way"] == 0
        # What it had under way is stored and noted: nothing of it is shipped again.
        second = process(*command, "--once").end()
        assert second.records[-1]["duplicates"] == 0
        assert first.records[-1]["lines"] + second.records[-1]["lines"] == 20_000


async def test_standard_input_is_shipped_to_its_end(server: Server, process: Callable[..., Process]) -> None:
    running = process("ship", "--create", "LOGS", "--host", "pipe", "--json", stdin=subprocess.PIPE)
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"one\ntwo\nwithout an end")
    result = running.end()
    assert result.code == 0
    assert result.records[-1]["lines"] == 3
    async with jetspark.connect(server.url) as nc:
        messages = await read_all(await nc.jetstream().get_stream("LOGS"))
    assert [message.data for message in messages] == [b"one", b"two", b"without an end"]
    assert {message.headers["Jetspark-File"] for message in messages} == {"-"}


async def test_a_line_of_standard_input_that_the_server_would_not_take_is_cut(
    server: Server, process: Callable[..., Process]
) -> None:
    running = process("ship", "--create", "LOGS", "--json", "--max-line", "2MB", stdin=subprocess.PIPE)
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"one\n" + b"x" * 1_500_000 + b"\nlast\n")
    result = running.end()
    assert (result.code, result.err) == (0, "")
    assert (result.records[-1]["lines"], result.records[-1]["bytes"]) == (4, 1_500_010)


async def test_a_pipe_that_does_not_block_is_waited_for(
    server: Server, process: Callable[..., Process]
) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    running = process("ship", "--create", "LOGS", "--json", "--metrics", "0", stdin=ours)
    os.close(ours)
    os.write(theirs, b"one\n")
    async with jetspark.connect(server.url) as nc:

        async def is_there() -> bool:
            return "LOGS" in [name async for name in nc.jetstream().stream_names()]

        await until(is_there, "the stream")
        await stored(await nc.jetstream().get_stream("LOGS"), 1)
    os.write(theirs, b"two\n")
    os.close(theirs)
    assert running.end().records[-1]["lines"] == 2


def test_standard_input_that_is_broken_is_no_end_of_it(
    server: Server, process: Callable[..., Process]
) -> None:
    with open(os.devnull, "wb") as only_for_writing:
        result = process("ship", "--create", "LOGS", stdin=only_for_writing).end()
    assert (result.code, result.err) == (1, "jetspark: cannot read standard input: Bad file descriptor\n")


async def test_a_pipe_that_says_nothing_does_not_keep_the_agent(
    server: Server, process: Callable[..., Process]
) -> None:
    running = process("ship", "--create", "LOGS", "--json", "--metrics", "100ms", stdin=subprocess.PIPE)
    assert running.line()
    running.signal(signal.SIGTERM)
    assert running.popen.wait(timeout=60) == 0


async def test_an_agent_waits_for_a_server_that_is_not_there_yet(
    server: Server, process: Callable[..., Process], logs: Path
) -> None:
    (logs / "a.log").write_text("one\n")
    server.stop()
    with held(server.port):
        running = process("ship", logs / "a.log", "--create", "LOGS", "--json", "--metrics", "100ms")
        assert running.popen.stderr is not None
        assert b"waiting for the server" in running.popen.stderr.readline()
        server.start()
    assert running.line()
    async with jetspark.connect(server.url) as nc:
        await stored(await nc.jetstream().get_stream("LOGS"), 1)
    running.signal(signal.SIGTERM)
    assert running.end().code == 0
