"""The blocking API, each workload in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from chaos.site import STREAM, SUBJECT
from chaos.stage import Stage, is_refusal, message_id
from jetspark import (
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    PubAck,
    PublishError,
    Timeout,
    blocking,
)

__all__ = ["consume", "fetch", "messages", "ordered", "publish", "push", "vanishing", "window"]


def in_thread(work: Callable[[Stage], None]) -> Callable[[Stage], Coroutine[Any, Any, None]]:
    """Run it in a thread. One that hangs is left behind; it ends with the process."""

    @functools.wraps(work)
    async def run(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def target() -> None:
            error: BaseException | None = None
            try:
                work(stage)
            except BaseException as caught:  # told in the loop
                error = caught
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(settle, error)

        thread = threading.Thread(target=target, name=f"chaos-{stage.name}", daemon=True)
        thread.start()
        await done
        thread.join()

    return run


@in_thread
def publish(stage: Stage) -> None:
    stage.record.in_order.add(stage.name)
    with stage.connect_blocking() as nc:
        js = nc.jetstream()
        stage.ready()
        while not stage.calm:
            payload = stage.payload()
            again = False
            while True:
                try:
                    js.publish(SUBJECT, payload, msg_id=message_id(payload), timeout=2.0, retry_for=8.0)
                except Error as error:
                    if is_refusal(error):
                        if not again:
                            stage.refused([payload], error)
                        break
                    again = True
                    with stage.tolerance_blocking():
                        raise
                else:
                    stage.acknowledged([payload])
                    break
            stage.rest_blocking(0.002, 0.03)


@in_thread
def window(stage: Stage) -> None:
    sent: list[tuple[bytes, Future[PubAck]]] = []
    with stage.connect_blocking() as nc:
        publisher = nc.jetstream().publisher(64, timeout=20.0, ack_timeout=2.0)
        stage.ready()
        while not stage.calm:
            with stage.tolerance_blocking():
                for _ in range(stage.random.randrange(1, 60)):
                    payload = stage.payload()
                    sent.append((payload, publisher.send(SUBJECT, payload, msg_id=message_id(payload))))
            stage.rest_blocking(0.05, 0.4)
        try:
            publisher.close()
        except PublishError as error:
            stage.record.errors[type(error).__name__] += 1
    for payload, future in sent:
        failure = future.exception()
        if failure is None:
            stage.acknowledged([payload])
        elif is_refusal(failure):
            stage.refused([payload], failure)


def _pull_consumer(stage: Stage, nc: blocking.Connection) -> blocking.Consumer:
    return nc.jetstream(timeout=20).create_consumer(STREAM, stage.durable())


@in_thread
def fetch(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    with stage.connect_blocking() as nc:
        consumer = _pull_consumer(stage, nc)
        stage.ready()
        while not reading.complete:
            with stage.tolerance_blocking():
                batch = consumer.fetch(stage.random.choice((1, 50)), expires=1.0)
                for message in batch:
                    reading.take(message)
                batch.ack()


@in_thread
def messages(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    with stage.connect_blocking() as nc:
        consumer = _pull_consumer(stage, nc)
        stage.ready()
        with consumer.messages(max_messages=100, expires=2.0) as delivered:
            while not reading.complete:
                if (message := delivered.next(timeout=0.5)) is not None:
                    reading.take(message)
                    message.ack()


@in_thread
def consume(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)

    def handle(message: blocking.JetStreamMsg) -> None:
        reading.take(message)
        message.ack()

    with stage.connect_blocking() as nc:
        consumer = _pull_consumer(stage, nc)
        with consumer.consume(handle, max_messages=100, expires=2.0) as running:
            stage.ready()
            while not reading.complete and running.active:
                stage.rest_blocking(0.02, 0.02)
        running.wait_closed()


@in_thread
def push(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    with stage.connect_blocking() as nc:
        subscription = nc.jetstream(timeout=20).subscribe(
            "events.>", durable=stage.name, config=stage.durable(), idle_heartbeat=0.5, manual_ack=True
        )
        stage.ready()
        while not reading.complete:
            with suppress(Timeout):
                message = subscription.next(0.5)
                reading.take(message)
                message.ack()
        with suppress(ConsumerNotFound):
            subscription.unsubscribe()


@in_thread
def ordered(stage: Stage) -> None:
    reading = stage.record.reading(stage.name, ordered=True)
    with stage.connect_blocking() as nc:
        consumer = nc.jetstream(timeout=20).ordered_consumer(STREAM, name_prefix=f"ordered_{stage.name}")
        with consumer.messages(max_messages=100, expires=2.0) as delivered:
            stage.ready()
            while not reading.complete:
                if (message := delivered.next(timeout=0.5)) is not None:
                    reading.take(message)
        consumer.delete()


@in_thread
def vanishing(stage: Stage) -> None:
    """As the one in `others`."""
    with stage.connect_blocking() as nc, stage.connect_blocking() as other:
        js, number = nc.jetstream(timeout=20), 0
        while not stage.record.over:
            number += 1
            last = stage.calm
            name = f"{stage.name}_{number}"
            config = ConsumerConfig(name=name, inactive_threshold=1.0, ack_wait=2.0)
            try:
                consumer = js.create_consumer(STREAM, config)
                stage.ready()
                with consumer.messages(max_messages=50, expires=2.0) as delivered:
                    while not stage.record.over:
                        if (message := delivered.next(timeout=0.5)) is not None:
                            message.ack()
                        elif stage.calm:
                            with suppress(Error):
                                other.jetstream().delete_consumer(STREAM, name)
            except (ConsumerDeleted, ConsumerNotFound):
                if last:
                    return
            except Error as error:
                stage.count(error)
