"""Shared by tests of workers: work queues, and what is in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from jetspark import ConsumerConfig, StreamConfig
from jetspark.jetstream.context import JetStream
from jetspark.spark.queue.offsets import QueueOffset
from jetspark.spark.queue.worker import QueueWorker

#: Makes a worker of consumer `worker`, given the stream and options.
Workers = Callable[..., QueueWorker]

#: Seconds after which a test gives up.
LONG = 60.0


async def make(js: JetStream, count: int = 0, **config: Any) -> str:
    """A work queue with so many messages."""
    name = f"Q{secrets.token_hex(4)}"
    settings: dict[str, Any] = {"retention": "workqueue", "allow_direct": True, "storage": "memory"} | config
    await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **settings))
    await publish(js, name, count)
    return name


async def publish(js: JetStream, name: str, count: int, token: str = "a") -> None:
    async with js.publisher() as publisher:
        for _ in range(count):
            publisher.publish(f"{name}.{token}", b"x")


async def durable(js: JetStream, stream: str, **config: Any) -> None:
    await js.create_consumer(
        stream, ConsumerConfig(durable_name="worker", **({"max_ack_pending": 500_000} | config))
    )


def messages(offset: QueueOffset, stream: str) -> dict[int, int]:
    return dict(offset.streams[stream].messages)


def as_stored(offset: QueueOffset) -> QueueOffset:
    """The offset as a restarted driver gets it from the checkpoint."""
    return QueueOffset.from_json(offset.to_json(), offset.consumer)


async def pending(js: JetStream, stream: str) -> tuple[int, int]:
    info = await js.consumer_info(stream, "worker")
    return info.num_pending, info.num_ack_pending


async def stored(js: JetStream, stream: str) -> int:
    return (await js.get_stream(stream)).cached_info.state.messages
