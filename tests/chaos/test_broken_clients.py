"""Clients that are broken on purpose: chaos must catch each of them, or it proves nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chaos.cell import SETTLE, run
from chaos.leaks import LEAVE
from chaos.plan import Plan, Step
from chaos.site import Place
from jetspark import APIError, AtomicBatch, JetStream, JetStreamMsg, OrderedConsumer, PubAck
from jetspark.jetstream.pull.iterate import Messages

pytestmark = pytest.mark.faults

#: The call that goes wrong.
WRONG = 5
#: Seconds that are enough for those that work, where one never ends.
BRIEF = 10.0
#: Seconds in which what is left over may go, where something is on purpose.
SOON = 1.0
READERS = ("window", "messages", "ordered_messages")

Next = Callable[[Messages], Awaitable[JetStreamMsg]]


async def findings(*workloads: str, settle: float = SETTLE, leave: float = LEAVE) -> str:
    """Half a second of these workloads, with one cut: nothing that makes a server forget."""
    plan = Plan(1, Place.SERVER, workloads, (Step(0.5, "cut", 0.1),))
    return "\n".join((await run(plan, settle=settle, leave=leave)).findings)


def reader(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Messages, Next], Awaitable[JetStreamMsg]]
) -> None:
    """Iterators hand over one message with `wrong`; it gets them and the right way."""
    right: Next = Messages.__anext__
    calls: dict[int, int] = {}

    async def hand_over(messages: Messages) -> JetStreamMsg:
        calls[id(messages)] = calls.get(id(messages), 0) + 1
        return await (wrong(messages, right) if calls[id(messages)] == WRONG else right(messages))

    monkeypatch.setattr(Messages, "__anext__", hand_over)


async def test_a_whole_client_passes() -> None:
    assert await findings(*READERS, "publish", "atomic") == ""


async def test_one_that_loses_a_message_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(messages: Messages, right: Next) -> JetStreamMsg:
        (await right(messages)).ack()
        return await right(messages)

    reader(monkeypatch, lose)
    found = await findings(*READERS, settle=BRIEF, leave=SOON)
    assert "\nmessages: 1 lost: " in found
    assert "\nordered_messages: 1 lost: " in found


async def test_one_that_hands_a_message_over_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[int, JetStreamMsg] = {}
    right: Next = Messages.__anext__

    async def double(messages: Messages) -> JetStreamMsg:
        if (message := held.pop(id(messages), None)) is not None:
            return message
        message = await right(messages)
        if message.metadata.sequence.stream == WRONG:
            held[id(messages)] = message
        return message

    monkeypatch.setattr(Messages, "__anext__", double)
    found = await findings(*READERS)
    assert "messages: 1 handed over twice, though delivered once: " in found
    assert "ordered_messages: 1 delivered twice by an ordered reader: 5" in found


async def test_one_that_changes_the_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[int, JetStreamMsg] = {}
    right: Next = Messages.__anext__

    async def swap(messages: Messages) -> JetStreamMsg:
        if (message := held.pop(id(messages), None)) is not None:
            return message
        message = await right(messages)
        if message.metadata.sequence.stream == WRONG:
            held[id(messages)] = message
            message = await right(messages)
        return message

    monkeypatch.setattr(Messages, "__anext__", swap)
    assert "ordered_messages: 1 delivered out of order: 5" in await findings(*READERS)


async def test_one_that_stops_handing_over_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(messages: Messages, right: Next) -> JetStreamMsg:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    reader(monkeypatch, hang)
    found = await findings(*READERS, settle=BRIEF, leave=SOON)
    assert f"hang: messages did not end within {BRIEF:g} s after the last fault; it waits at " in found
    assert "hang: ordered_messages did not end" in found


async def test_one_that_leaves_something_behind_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []
    over = threading.Event()

    async def forget(consumer: OrderedConsumer) -> None:
        left.append(asyncio.create_task(asyncio.sleep(100), name="forgotten"))
        left.append(socket.socket())
        threading.Thread(target=over.wait, name="forgotten").start()

    monkeypatch.setattr(OrderedConsumer, "delete", forget)
    try:
        found = await findings("window", "ordered_fetch", leave=SOON)
    finally:
        over.set()
        task, open_socket = left
        task.cancel()
        open_socket.close()
    for leak in ("consumer ordered_ordered_fetch", "task forgotten", "thread forgotten", "1 sockets"):
        assert f"leak: {leak}" in found


async def test_a_publisher_that_lies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = JetStream.publish
    ack = PubAck(stream="EVENTS", sequence=1)
    ids = []

    async def lie(js: JetStream, subject: str, data: bytes, **options: Any) -> PubAck:
        ids.append(options["msg_id"])
        if len(ids) == WRONG:  # acknowledged and not stored
            return ack
        if len(ids) == WRONG + 1:  # stored twice
            await right(js, subject, data)
        elif len(ids) == WRONG + 2:  # stored and refused
            await right(js, subject, data, **options)
            raise APIError("no", code=400, err_code=10158)
        return await right(js, subject, data, **options)

    monkeypatch.setattr(JetStream, "publish", lie)
    found = await findings("publish")
    assert f"1 acknowledged and not stored: {ids[WRONG - 1]}" in found
    assert f"1 stored more than once: {ids[WRONG]}" in found
    assert f"1 stored though refused, or never published: {ids[WRONG + 1]}" in found


async def test_an_atomic_batch_that_is_not_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = AtomicBatch.commit

    async def halve(batch: AtomicBatch) -> PubAck:
        if len(batch) > 2:
            del batch._messages[-1]
        return await right(batch)

    monkeypatch.setattr(AtomicBatch, "commit", halve)
    assert "atomic batches stored in part" in await findings("atomic")


async def test_a_workload_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(js: JetStream, *args: object, **options: object) -> PubAck:
        raise TypeError("broken")

    monkeypatch.setattr(JetStream, "publish", refuse)
    found = await findings("publish", "window")
    assert "publish failed with TypeError: broken" in found
