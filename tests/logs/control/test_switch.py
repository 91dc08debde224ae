"""The agent and the stop button: it obeys, it says so when it is true, and it goes on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import jetspark
from jetspark import JetStream, StreamConfig
from jetspark.errors import ConnectionClosed
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.control.switch import AgentReport, Switch, parse_switch, read_state, set_switch
from jetspark.server import Server
from tests.cli.support import Process
from tests.logs.support import Running, lines_of, shipping, stored, until
from tests.support.cases import for_each


def write(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        file.write("".join(f"w-{number}\n" for number in range(first, last + 1)))


async def reported(js: JetStream, state: str, obeys: int) -> AgentReport:
    """Wait until the only agent says that it is in this state, and has heard this word."""

    async def said() -> bool:
        agents = (await read_state(js)).agents
        return [(agent.state, agent.obeys >= obeys) for agent in agents] == [(state, True)]

    await until(said, f"an agent that is {state}")
    return (await read_state(js)).agents[0]


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


async def test_an_agent_that_starts_late_pauses_and_resumes_when_the_time_is_over(
    server: Server, logs: Path
) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(logs / "a.log", 1, 10)
        await set_switch(js, paused=True, until=datetime.now(UTC) + timedelta(hours=1))
        async with shipping(js, stream, logs, control=True) as running:
            await running.says("paused")
            assert (await stream.info()).state.messages == 0
            await set_switch(js, paused=True, until=datetime.now(UTC) + timedelta(seconds=1))
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
            await running.says("resumed")
            write(logs / "a.log", 11, 20)
            await stored(stream, 20)


async def test_files_that_are_rotated_in_a_pause_are_shipped_after_it(server: Server, logs: Path) -> None:
    path = logs / "app.log"
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        write(path, 1, 1)
        async with shipping(js, stream, logs, control=True, patterns=[str(path)]) as running:
            await stored(stream, 1)
            await set_switch(js, paused=True)
            await running.says("paused")
            for number in (1, 2):
                path.rename(logs / f"app.log.{number}")
                write(path, 1 + number, 1 + number)
                await running.follows(1 + number)
            await set_switch(js, paused=False)
            await stored(stream, 3)
        assert await lines_of(stream) == [b"w-1", b"w-2", b"w-3"]


async def test_an_invalid_command_does_not_pause(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        async with shipping(js, stream, logs, control=True) as running:
            await reported(js, "shipping", 0)
            for word in (b'{"paused": true, "until": "2099-01-01T00:00:00"}', b"[]", b"\xff"):
                ack = await js.publish("jetspark.control.shippers", word)
                await reported(js, "shipping", ack.sequence)
            write(logs / "a.log", 1, 1)
            await stored(stream, 1)
            await set_switch(js, paused=True)
            await running.says("paused")  # it still listens


def test_a_time_without_its_zone_is_no_time() -> None:
    word = json.dumps({"paused": True, "until": "2099-01-01T00:00:00"}).encode()
    assert parse_switch(word, 7) == Switch(sequence=7)
    assert parse_switch(word.replace(b'00"', b'00Z"'), 7).holds(datetime.now(UTC))


@for_each("word", [b"\xff", b'{"by":"\xff"}', b"5", b'{"a":' * 3000 + b"1" + b"}" * 3000])
def test_what_is_no_command_does_not_pause(word: bytes) -> None:
    assert parse_switch(word, 7) == Switch(sequence=7)


async def test_strange_messages_of_other_clients_do_not_hide_the_state(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        switch = await set_switch(js, paused=True)
        for data in (b"\xff", b"{}", b"[" * 10_000):
            await js.publish(f"jetspark.control.agent.{len(data)}", data)
        await js.publish("jetspark.control.consumer.a/b.c")
        state = await read_state(js)
        assert (state.switch, state.agents) == (switch, [])
        assert [(each.stream, each.missing) for each in state.consumers] == [("a/b", True)]


async def test_an_agent_whose_connection_is_closed_in_a_pause_ends(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await set_switch(js, paused=True)
        other = await jetspark.connect(server.url)
        running = Running(
            other.jetstream(), ShipOptions(patterns=[str(logs / "*")], positions=logs / "positions")
        )
        await running.says("paused")
        await other.close()
        with pytest.raises(ConnectionClosed):
            await running.end()


async def test_no_agent_reports_a_pause_while_messages_are_in_flight(server: Server, logs: Path) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await nc.subscribe("logs.>")  # somebody listens, so that nobody says no; and nobody stores it
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["other"]))
        write(logs / "a.log", 1, 10)
        async with shipping(js, stream, logs, control=True, grace=0.5) as running:

            async def in_flight() -> bool:
                return running.agent.status().in_flight == 10

            await until(in_flight, "ten lines in flight")
            switch = await set_switch(js, paused=True)
            await reported(js, "shipping", switch.sequence)
        assert [note for note in running.notes if "paused" in note] == []


async def test_an_agent_that_waits_for_its_pipe_says_that_it_pauses(
    server: Server, process: Callable[..., Process]
) -> None:
    running = process("ship", "--create", "LOGS", "--metrics", "0", stdin=subprocess.PIPE)
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"one\n")
    running.popen.stdin.flush()
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await reported(js, "shipping", 0)
        await stored(await js.get_stream("LOGS"), 1)
        switch = await set_switch(js, paused=True)
        await reported(js, "paused", switch.sequence)
        await set_switch(js, paused=False)
    assert running.end().code == 0
