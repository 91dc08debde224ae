"""Without `instrument`, nothing of OpenTelemetry is loaded, and every class is the plain one."""

from __future__ import annotations

import subprocess
import sys

import jetspark
from jetspark import ConsumerConfig, Stream, blocking, client
from jetspark.blocking.message import JetStreamMsg as BlockingMsg
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.server import Server

PROGRAM = """
import asyncio, sys
import jetspark

async def main(url):
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        async with js.publisher():
            pass
        await nc.request("$JS.API.INFO")

asyncio.run(main(sys.argv[1]))
with jetspark.blocking.connect(sys.argv[1]) as nc:
    nc.jetstream().account_info()
print(*(name for name in sys.modules if name.startswith(("opentelemetry", "jetspark.otel"))))
"""


def test_a_program_without_traces_loads_nothing_for_them(shared_server: Server) -> None:
    command = [sys.executable, "-c", PROGRAM, shared_server.url]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert output.stdout.split() == []


async def test_objects_of_other_connections_have_the_plain_classes(
    nc: jetspark.Connection,
    plain: jetspark.Connection,
    blocking_nc: blocking.Connection,
    stream: Stream,
    shared_server: Server,
) -> None:
    assert type(nc) is not client.Connection
    assert type(blocking_nc) is not blocking.Connection
    js = plain.jetstream()
    assert (type(plain), type(js)) == (client.Connection, jetspark.JetStream)
    async with js.publisher() as publisher:
        assert type(publisher) is jetspark.Publisher
        await publisher.send(f"{stream.name}.1")
        await publisher.send(f"{stream.name}.2")
    assert type(js.atomic_batch()) is jetspark.AtomicBatch
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    (message,) = await consumer.fetch(1)
    assert type(message) is JetStreamMsg
    async with consumer.messages() as messages:
        assert type(await messages.next(5)) is JetStreamMsg
    running = await consumer.consume(lambda message: None)
    assert type(running) is jetspark.Consuming
    await running.stop()
    subscription = await plain.subscribe("nothing", callback=lambda message: None)
    assert type(subscription) is jetspark.Subscription
    with blocking.connect(shared_server.url) as other:
        blocking_js = other.jetstream()
        with blocking_js.publisher() as blocking_publisher:
            assert type(blocking_publisher) is blocking.Publisher
        found = blocking_js.create_consumer(stream.name, ConsumerConfig(name="other")).fetch(1)
        assert type(found[0]) is BlockingMsg
