"""Publishing, in every way that the asyncio API has. Every message has an id."""

from __future__ import annotations

import asyncio
from functools import partial

from chaos.site import SUBJECT
from chaos.stage import Stage, is_refusal, message_id
from jetspark import AtomicBatch, BatchPublishError, Error, JetStream, PubAck, PublishError
from jetspark.core.headers import header_block
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing

__all__ = ["atomic", "bulk", "publish", "window"]

#: What a publish call may take: one attempt, and the time for which it repeats.
_ATTEMPT = 2.0
_RETRY_FOR = 8.0
#: The server has one of the ids of an atomic batch: an earlier attempt was stored.
_STORED_BEFORE = 10201


async def publish(stage: Stage) -> None:
    """One after the other, each until it is stored."""
    stage.record.in_order.add(stage.name)
    async with stage.connect() as nc:
        js = nc.jetstream()
        stage.ready()
        while not stage.calm:
            payload = stage.payload()
            await stage.store([payload], partial(_publish, stage, js, payload))
            await stage.rest(0.002, 0.03)


async def _publish(stage: Stage, js: JetStream, payload: bytes, again: bool) -> None:
    with stage.within(_RETRY_FOR + _ATTEMPT, "publish"):
        await js.publish(SUBJECT, payload, msg_id=message_id(payload), timeout=_ATTEMPT, retry_for=_RETRY_FOR)


async def window(stage: Stage) -> None:
    """Bursts with many messages in flight; the futures say what became of each."""

    def settled(payload: bytes, future: asyncio.Future[PubAck]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            stage.acknowledged([payload])
        elif is_refusal(error):
            stage.refused([payload], error)
        elif isinstance(error, Error):
            stage.count(error)

    async with stage.connect() as nc:
        publisher = nc.jetstream().publisher(64, timeout=20.0, ack_timeout=_ATTEMPT)
        stage.ready()
        while not stage.calm:
            async with stage.tolerance():
                for _ in range(stage.random.randrange(1, 60)):
                    payload = stage.payload()
                    future = await publisher.send(SUBJECT, payload, msg_id=message_id(payload))
                    future.add_done_callback(partial(settled, payload))
            await stage.rest(0.05, 0.4)
        with stage.within(20.0, "close of a publisher"):
            try:
                await publisher.close()
            except PublishError as error:
                stage.record.errors[type(error).__name__] += 1


async def bulk(stage: Stage) -> None:
    """Chunks of encoded messages, as the log agent and Spark publish them."""
    async with stage.connect() as nc:
        js = nc.jetstream()
        stage.ready()
        while not stage.calm:
            payloads = [stage.payload() for _ in range(stage.random.randrange(1, 80))]
            chunk = [_outgoing(payload) for payload in payloads]
            stored = False
            while not stored:
                async with stage.tolerance():
                    stored = await _send(stage, js, chunk)
            await stage.rest(0.1, 0.6)


async def _send(stage: Stage, js: JetStream, chunk: list[Outgoing]) -> bool:
    publisher = BulkPublisher(js.api, 64, max_bytes=100_000, timeout=20.0)
    try:
        await publisher.send(chunk)
        await publisher.finish()
    except PublishError as error:
        cause = error.__cause__
        if cause is not None and is_refusal(cause):
            stage.refused([chunk[error.first - 1].data], cause)
            return True
        raise cause or error from error
    finally:
        publisher.abandon()
    stage.acknowledged([message.data for message in chunk])
    return True


def _outgoing(payload: bytes) -> Outgoing:
    msg_id = message_id(payload)
    return Outgoing(SUBJECT, msg_id, header_block({"Nats-Msg-Id": msg_id}), payload)


async def atomic(stage: Stage) -> None:
    """Batches that are stored as a whole or not at all, committed again while that is unknown."""
    async with stage.connect() as nc:
        js = nc.jetstream()
        stage.ready()
        while not stage.calm:
            batch = js.atomic_batch(timeout=_ATTEMPT, retry_for=_RETRY_FOR)
            payloads = [stage.payload() for _ in range(stage.random.randrange(1, 9))]
            stage.record.batches.append([payload.rstrip() for payload in payloads])
            for payload in payloads:
                batch.add(SUBJECT, payload, msg_id=message_id(payload))
            await stage.store(payloads, partial(_commit, stage, batch))
            await stage.rest(0.05, 0.3)


async def _commit(stage: Stage, batch: AtomicBatch, again: bool) -> None:
    try:
        with stage.within(_RETRY_FOR + 2 * _ATTEMPT, "commit"):
            await batch.commit()
    except BatchPublishError as error:
        if not (again and error.err_code == _STORED_BEFORE):
            raise
