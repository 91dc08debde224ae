"""What is neither writing nor reading a stream to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from chaos.record import Letters
from chaos.site import STREAM
from chaos.stage import Stage
from jetspark import (
    Connection,
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    JetStream,
    Msg,
)

__all__ = ["churn", "dead_letters", "requests", "vanishing"]

_ANSWER_WITHIN = 2.0


async def requests(stage: Stage) -> None:
    """Every request gets its own answer or an error, in time."""

    async def ask(nc: Connection, asker: int) -> None:
        number = 0
        while not stage.calm:
            number += 1
            question = b"%d-%d" % (asker, number)
            with stage.within(_ANSWER_WITHIN, "request"):
                async with stage.tolerance():
                    answer = await nc.request("chaos.ask", question, timeout=_ANSWER_WITHIN)
                    if answer.data != question:
                        stage.record.findings.append(f"requests: {question!r} was answered {answer.data!r}")
            await stage.rest(0.01, 0.05)

    def respond(message: Msg) -> None:
        message.respond(message.data)

    async with stage.connect() as responder, stage.connect() as nc:
        await responder.subscribe("chaos.ask", callback=respond)
        await responder.flush()
        stage.ready()
        await asyncio.gather(*(ask(nc, asker) for asker in range(3)))
        # Both are connected again by now, or soon.
        async with asyncio.timeout(30):
            while True:
                with suppress(Error):
                    await nc.request("chaos.ask", b"still there?", timeout=1.0)
                    return
                await asyncio.sleep(0.1)


async def dead_letters(stage: Stage) -> None:
    """A reader terminates every fifth message, another follows what was given up."""
    letters = stage.record.letters = Letters()
    reading = stage.record.reading(stage.name)
    await stage.site.control.jetstream(timeout=30.0).create_advisory_stream(num_replicas=stage.site.replicas)
    async with stage.connect() as nc, stage.connect() as other:
        consumer = await stage.pull_consumer(nc)
        follower = asyncio.create_task(_follow(stage, other.jetstream(), letters))
        try:
            stage.ready()
            while not reading.complete:
                async with stage.tolerance():
                    for message in await consumer.fetch(50, expires=1.0):
                        reading.take(message)
                        if message.metadata.sequence.stream % 5:
                            message.ack()
                        else:
                            letters.terminated.add(message.metadata.sequence.stream)
                            message.term("chaos")
            await nc.flush()
            await _announce(stage, letters)
            while not (letters.complete or follower.done()):
                await asyncio.sleep(0.02)
        finally:
            follower.cancel()
            await asyncio.wait([follower])
        if not follower.cancelled():
            follower.result()
            stage.record.findings.append("dead_letters: the iterator ended")


async def _follow(stage: Stage, js: JetStream, letters: Letters) -> None:
    async for letter in js.dead_letters(STREAM, stage.name, follow=True):
        data = None if letter.message is None else letter.message.data
        letters.returned.append((letter.sequence, data))


async def _announce(stage: Stage, letters: Letters) -> None:
    """Enter what the stream of advisories has: an advisory that is lost with its server is nobody's fault."""
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{STREAM}.{stage.name}"
    while letters.announced is None:
        async with stage.tolerance():
            stream = await stage.site.js.get_stream("ADVISORIES")
            reader = await stream.ordered_consumer(filter_subjects=[subject], name_prefix="announced")
            found = set()
            while batch := await reader.fetch_no_wait(500):
                found |= {int(_sequence(message.data)) for message in batch}
            await reader.delete()
            letters.announced = found


def _sequence(advisory: bytes) -> bytes:
    return advisory.partition(b'"stream_seq":')[2].partition(b",")[0].strip(b" }")


async def vanishing(stage: Stage) -> None:
    """An ephemeral consumer goes in every longer outage, and for good at the end: its reader must be told."""
    async with stage.connect() as nc:
        js = nc.jetstream(timeout=20)
        number = 0
        while True:
            number += 1
            last = stage.calm
            name = f"{stage.name}_{number}"
            config = ConsumerConfig(name=name, inactive_threshold=1.0, ack_wait=2.0)
            try:
                consumer = await js.create_consumer(STREAM, config)
                stage.ready()
                async with consumer.messages(max_messages=50, expires=2.0) as delivered:
                    deleting = asyncio.create_task(_delete_when_calm(stage, name))
                    try:
                        async for message in delivered:
                            message.ack()
                    finally:
                        deleting.cancel()
                        await asyncio.wait([deleting])
            except (ConsumerDeleted, ConsumerNotFound):
                if last:
                    return
            except Error as error:
                stage.count(error)


async def _delete_when_calm(stage: Stage, name: str) -> None:
    while not stage.calm:
        await asyncio.sleep(0.02)
    while True:
        with suppress(Error):
            await stage.site.js.delete_consumer(STREAM, name)
        await asyncio.sleep(0.5)


async def churn(stage: Stage) -> None:
    """Consumers and subscriptions are made and deleted all the time: calls that are cut in two repeat."""
    async with stage.connect() as nc:
        js = nc.jetstream(timeout=5.0)
        stage.ready()
        number = 0
        while not stage.calm:
            number += 1
            async with stage.tolerance():
                match stage.random.randrange(4):
                    case 0:
                        consumer = await js.create_consumer(
                            STREAM, ConsumerConfig(name=f"{stage.name}_{number}")
                        )
                        await _gone(consumer.delete())
                    case 1:
                        subscription = await js.subscribe("events.>", deliver_policy="new")
                        await _gone(subscription.unsubscribe())
                    case 2:
                        pull = await js.pull_subscribe("events.>")
                        await _gone(pull.unsubscribe())
                    case 3:
                        subscription = await js.subscribe("events.>", ordered=True, deliver_policy="new")
                        await _gone(subscription.unsubscribe())
            await stage.rest(0.05, 0.2)


async def _gone(deleting: Awaitable[None]) -> None:
    """The server deletes an ephemeral consumer by itself, too."""
    with suppress(ConsumerNotFound):
        await deleting
