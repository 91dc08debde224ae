"""The Python blocks of the guides run, from the first to the last, against a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import jetspark
from jetspark import ConsumerConfig, StreamConfig, blocking
from jetspark.server import Server
from tests.docs.console import ROOT
from tests.docs.python import LONG, Names, PythonPage, blocks
from tests.support.waiting import wait_until

URL = '"nats://127.0.0.1:4222"'


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in which the blocks run."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


async def handle(message: jetspark.JetStreamMsg) -> None:
    message.ack()


def report(error: Exception) -> None:
    raise AssertionError("nothing goes wrong here") from error


async def test_connecting(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = tmp_path / "config" / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "prod.json").write_text(json.dumps({"url": server.url}))
    monkeypatch.setenv("NATS_URL", server.url)
    async with jetspark.connect(server.url) as other:

        async def answer(message: jetspark.Msg) -> None:
            await message.respond(b"answer")

        for subject in ("service", "services"):
            await other.subscribe(subject, callback=answer)
        await other.flush()
        page = PythonPage(
            "docs/connecting.md",
            replaced={URL: repr(server.url), '["nats://a:4222", "nats://b:4222"]': repr([server.url] * 2)},
        )
        await page.run(
            {"socket": socket, "url": server.url, "handle": lambda message: None, "report": report}
        )


async def fill(js: jetspark.JetStream, name: str, subject: str, messages: int, size: int = 10) -> None:
    await js.create_stream(StreamConfig(name=name, subjects=[f"{name.lower()}.>"], storage="memory"))
    async with js.publisher() as publisher:
        for _ in range(messages):
            await publisher.send(subject, b"x" * size)


async def test_consuming(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await fill(js, "ORDERS", "orders.eu.new", 4000, size=1000)

        async def acknowledge(names: Names) -> None:
            for name in ("batch", "message"):
                if received := names.pop(name, None):
                    received.ack()

        async def give_up(names: Names) -> None:
            message = await names["consumer"].next(expires=5.0)
            await message.term("no address")
            advisories = await js.get_stream("ADVISORIES")
            term = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>"
            async with asyncio.timeout(LONG):
                while not (await advisories.info(subjects_filter=term)).state.subjects:
                    await asyncio.sleep(0.01)

        page = PythonPage(
            "docs/consuming.md",
            replaced={
                "        message.ack()\n": "        message.ack()\n        break\n",
                "        batch.ack()\n": "        batch.ack()\n        break\n",
            },
            before={"async for letter in consumer.dead_letters()": give_up},
            afterwards=acknowledge,
        )
        names: Names = {"nc": nc, "handle": handle, "report": report}
        await page.run(names)


async def test_subscribing(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        await fill(nc.jetstream(), "ORDERS", "orders.new", 200)

        async def connect_again(names: Names) -> None:
            names["nc"] = await jetspark.connect(server.url)
            names["js"] = names["nc"].jetstream()
            await names["js"].delete_consumer("ORDERS", "billing")

        page = PythonPage(
            "docs/subscribe.md",
            replaced={"next(timeout=1.0)": "next(timeout=60.0)"},
            before={'await js.subscribe("orders.>", "workers"': connect_again},
        )
        own = await jetspark.connect(server.url)
        await page.run({"nc": own, "js": own.jetstream(), "handle": handle})


async def test_managing(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()

        async def messages(names: Names) -> None:
            await fill(js, "ORDERS", "orders.eu", 120)
            names["stream"] = await js.get_stream("ORDERS")

        async def remove(names: Names) -> None:
            await js.delete_stream("ORDERS")

        async def give_up() -> None:
            consumer = await js.create_consumer("ORDERS", ConsumerConfig(durable_name="sender"))
            message = await consumer.next(expires=5.0)
            assert message is not None
            await message.term()

        live = "    async for event in advisories:\n"
        page = PythonPage(
            "docs/managing.md",
            replaced={
                live: f"    await give_up()\n{live}",
                "event.stream_seq)\n": "event.stream_seq)\n        break\n",
            },
            before={
                "message = await stream.get_message(17)": messages,
                'stream = await js.restore_stream("backups/orders")': remove,
            },
        )
        config = StreamConfig(name="ORDERS", subjects=["orders.>"], max_age=86400)
        await page.run({"nc": nc, "config": config, "give_up": give_up})


async def test_publishing(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        await js.create_stream(StreamConfig(name="JOBS", subjects=["jobs.>"], allow_msg_schedules=True))
        counters = StreamConfig(name="COUNTS", subjects=["visits.>", "stock.>"], allow_msg_counter=True)
        stream = await js.create_stream(counters)
        await js.create_stream(StreamConfig(name="LEDGER", subjects=["ledger.>"], allow_atomic=True))
        names: Names = {"js": js, "stream": stream, "rows": [b"1", b"2"]}
        await PythonPage("docs/publishing.md").run(
            names | {"datetime": datetime, "timedelta": timedelta, "UTC": UTC}
        )


async def test_the_console(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        page = PythonPage("docs/console.md", replaced={"    await console.wait()\n": ""})
        await page.run({"js": nc.jetstream()})


async def test_traces(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await fill(js, "ORDERS", "orders.new", 600)
        await js.create_stream(StreamConfig(name="INVOICES", subjects=["invoices.>"]))
        await js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))

        async def stop(names: Names) -> None:
            await names["running"].drain()
            await fill(js, "MORE", "more.new", 600)
            names["consumer"] = await names["js"].create_consumer(
                "MORE", ConsumerConfig(durable_name="billing")
            )

        page = PythonPage(
            "docs/tracing.md",
            replaced={
                URL: repr(server.url),
                "            message.ack()\n": "            message.ack()\n        break\n",
            },
            before={"from jetspark.otel import process": stop},
        )
        await page.run({})


async def test_buckets(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        live = "    async for entry in changes:  # each change from then on\n"
        page = PythonPage(
            "docs/kv.md",
            replaced={
                live: f'    await kv.put("eur.usd", b"1.12")\n{live}',
                "else entry.value)\n": "else entry.value)\n        break\n",
            },
        )
        await page.run({"nc": nc})


async def test_objects(server: Server, scratch: Path) -> None:
    (scratch / "data").mkdir()
    (scratch / "data" / "model.bin").write_bytes(b"x" * 300_000)
    async with jetspark.connect(server.url) as nc:
        await PythonPage("docs/objects.md").run({"nc": nc, "source": iter([b"1", b"2"])})


def test_blocking(server: Server) -> None:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        consumer = js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
        for _ in range(500):
            js.publish("orders.new", b"")
        (text,) = blocks(ROOT / "docs/blocking.md", "python")
        assert URL in text
        exec(compile(text.replace(URL, repr(server.url)), "docs/blocking.md", "exec"), {})
        js.publish("orders.new", b"")
        # The server counts it as pending a moment after it is stored.
        wait_until(lambda: consumer.info().num_pending == 1, "one message, the only one left")


def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python; the result has its output."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=LONG, check=False
    )


def test_the_embedded_server(scratch: Path) -> None:
    """The first block as a program, the second one as a test."""
    program, fixture = blocks(ROOT / "docs/server.md", "python")
    (scratch / "program.py").write_text(program)
    (scratch / "test_fixture.py").write_text(f"import jetspark\n\n{fixture}")
    ended = python("-W", "error", "program.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("nats://127.0.0.1:") == 4
    ended = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "test_fixture.py"
    )
    assert "1 passed" in ended.stdout


def test_the_first_steps(scratch: Path) -> None:
    """The first program of README.md prints the block after it; the second one is a part of an example."""
    first, second = blocks(ROOT / "README.md", "python")
    shown = blocks(ROOT / "README.md", "console")
    (scratch / "first.py").write_text(first)
    ended = python("-W", "error", "first.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == shown[1]
    example = (ROOT / "examples/spark_table_scan.py").read_text()
    lines = [line.strip() for line in example.splitlines()]
    assert [line for line in second.splitlines() if line.strip() not in lines] == []
