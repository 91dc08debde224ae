"""Typed options for what the server does with a message: roll-up, schedules, counters."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetspark import APIError, JetStream, MessageNotFound, StreamConfig, UsageError, blocking
from jetspark.jetstream.publish.headers import compose_headers
from jetspark.server import Server
from tests.support.cases import for_each
from tests.support.untyped import untyped


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return f"F{abs(hash(request.node.nodeid))}"


async def test_a_rollup_replaces_earlier_messages(js: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_rollup_hdrs=True)
    stream = await js.create_stream(config)
    for subject in ("a", "a", "b"):
        await js.publish(f"{name}.{subject}", b"old")
    await js.publish(f"{name}.a", b"new", rollup="sub")
    assert (await stream.info()).state.messages == 2
    async with js.publisher() as publisher:
        publisher.publish(f"{name}.c", b"only", rollup="all")
    assert (await stream.info()).state.messages == 1


async def test_a_message_is_published_at_its_time(js: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_msg_schedules=True, allow_msg_ttl=True)
    stream = await js.create_stream(config)
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    await js.publish(f"{name}.at.1", b"later", schedule=soon, schedule_target=f"{name}.run", schedule_ttl=60)
    for _ in range(6000):
        try:
            message = await stream.get_last_message(f"{name}.run")
            break
        except MessageNotFound:
            await asyncio.sleep(0.01)
    assert message.data == b"later"
    assert message.headers["Nats-TTL"].removesuffix("s") == "60"
    with pytest.raises(APIError, match="10189"):
        await js.publish(f"{name}.at.2", schedule="whenever", schedule_target=f"{name}.run")


async def test_a_message_is_published_again_and_again(js: JetStream, name: str) -> None:
    stream = await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], allow_msg_schedules=True))
    target = f"{name}.run"
    await js.publish(f"{name}.every", b"x", schedule="@every 1s", schedule_target=target)
    await js.publish(
        f"{name}.cron",
        schedule="0 0 6 * * *",
        schedule_time_zone="Europe/Berlin",
        schedule_target=target,
        schedule_source=f"{name}.source",
    )
    for _ in range(6000):
        if (await stream.info()).state.messages > 2:
            break
        await asyncio.sleep(0.01)
    assert (await stream.get_last_message(target)).data == b"x"


async def test_a_scheduled_message_may_replace_the_ones_before_it(js: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_msg_schedules=True, allow_rollup_hdrs=True)
    stream = await js.create_stream(config)
    for _ in range(3):
        await js.publish(f"{name}.run", b"old")
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    await js.publish(
        f"{name}.at", b"new", schedule=soon, schedule_target=f"{name}.run", schedule_rollup="sub"
    )
    for _ in range(6000):
        if (await stream.get_last_message(f"{name}.run")).data == b"new":
            break
        await asyncio.sleep(0.01)
    subjects = (await stream.info(subjects_filter=f"{name}.run")).state.subjects
    assert subjects == {f"{name}.run": 1}


@for_each(
    ("options", "complaint"),
    [
        ({"rollup": "subject"}, "rollup must be 'sub' or 'all'"),
        ({"schedule": "@hourly"}, "schedule needs schedule_target"),
        ({"schedule_target": "a"}, "schedule_target needs schedule"),
        ({"schedule_ttl": 5}, "schedule_ttl needs schedule"),
        ({"schedule_rollup": "sub"}, "schedule_rollup needs schedule"),
        ({"schedule": "@hourly", "schedule_target": "a", "schedule_rollup": "all"}, "must be 'sub'"),
        ({"schedule": datetime(2030, 1, 1), "schedule_target": "a"}, "has no time zone"),
        ({"schedule": 5, "schedule_target": "a"}, "schedule must be one line"),
        ({"schedule": "@at\r\nx", "schedule_target": "a"}, "schedule must be one line"),
        ({"schedule": "@hourly", "schedule_target": "a.*"}, "schedule_target"),
        ({"schedule": "@hourly", "schedule_target": "a", "schedule_time_zone": ""}, "schedule_time_zone"),
        ({"rollup": "sub", "headers": {"Nats-Rollup": "sub"}}, "exclude each other"),
        ({"headers": {"nats-rollup": "sub"}}, "does not recognize"),
    ],
)
def test_what_the_server_would_not_understand_is_refused(options: dict[str, Any], complaint: str) -> None:
    headers = options.pop("headers", None)
    with pytest.raises(UsageError, match=complaint):
        compose_headers(headers, None, untyped(options))


def test_a_time_is_written_in_utc() -> None:
    from datetime import timezone

    when = datetime(2030, 1, 1, 12, 0, 0, 500000, tzinfo=timezone(timedelta(hours=2)))
    fields = compose_headers(None, None, {"schedule": when, "schedule_target": "a"})
    assert fields["Nats-Schedule"] == ["@at 2030-01-01T10:00:00.500000Z"]


# --- counters


async def test_a_counter_counts(js: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_msg_counter=True, allow_direct=True)
    stream = await js.create_stream(config)
    subject = f"{name}.visits"
    assert await js.increment(subject) == 1
    assert await js.increment(subject, by=10**30) == 10**30 + 1
    assert await js.increment(subject, by=-(10**30), headers={"why": "test"}) == 1
    assert await stream.counter_value(subject) == 1
    with pytest.raises(MessageNotFound):
        await stream.counter_value(f"{name}.other")


async def test_an_increment_with_an_id_counts_once(js: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_msg_counter=True)
    await js.create_stream(config)
    for _ in range(2):
        assert await js.increment(name + ".a", 5, msg_id="once") == 5
    assert await js.increment(name + ".a", 1, msg_id="again") == 6
    assert await js.increment(name + ".a", 5, msg_id="once") == 5, "the value that it had then"


async def test_a_stream_that_does_not_count_is_told(js: JetStream, name: str) -> None:
    await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
    with pytest.raises((APIError, UsageError)):
        await js.increment(f"{name}.a")
    for bad in untyped((1.5, "1", True, None)):
        with pytest.raises(UsageError, match="by must be"):
            await js.increment(f"{name}.a", bad)


def test_blocking_counters(shared_server: Server, name: str) -> None:
    with blocking.connect(shared_server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name=name, subjects=[name], allow_msg_counter=True))
        assert (js.increment(name, 2), stream.counter_value(name)) == (2, 2)
