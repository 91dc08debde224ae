"""Priority groups: pins that are gained and lost, the options of a request."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import PinEvent
from jetspark.jetstream.consumer import Consumer
from tests.jetstream.pull.scripted.support import HOUR, round_trip, scripted
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import Pull, ScriptedJetStream

PINNED = {"priority_groups": ["jobs"], "priority_policy": "pinned_client"}


WRONG_PIN = "423 Nats-Wrong-Pin-Id"


def pinned_message(pull: Pull, pin_id: str = "mine") -> bytes:
    return pull.message(headers={"Nats-Pin-Id": pin_id})


class Pins(list[tuple[str, bool]]):
    """An `on_pin` that keeps what it is told."""

    def __call__(self, event: PinEvent) -> None:
        assert (event.stream, event.consumer, event.group) == ("S", "C", "jobs")
        self.append((event.pin_id, event.gained))


async def test_a_consume_that_loses_its_pin_pulls_again_without_it_and_reports_no_error(
    errors: Errors,
) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors) as messages,
    ):
        consumer.on_pin(pins := Pins())
        pull = await server.pull()
        assert pull.request["group"] == "jobs"
        assert "id" not in pull.request
        pull.send(pinned_message(pull))
        assert await messages.next()
        pinned = await server.pull()
        assert (pinned.request["id"], pinned.request["group"]) == ("mine", "jobs")
        pinned.send(pinned.status(WRONG_PIN, messages=1))
        again = await server.pull()
        assert "id" not in again.request
        assert again.request["group"] == "jobs"
        again.send(pinned_message(again, "another"))
        assert await messages.next()
        assert (await server.pull()).request["id"] == "another"
        assert pins == [("mine", True), ("mine", False), ("another", True)]
    assert errors.empty()


async def test_a_request_from_before_the_pin_does_not_take_it_away(errors: Errors) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors) as messages,
    ):
        pull = await server.pull()
        pull.send(pinned_message(pull))
        assert await messages.next()
        pinned = await server.pull()
        pull.send(pull.status(WRONG_PIN, messages=1))
        assert (await server.pull()).request["id"] == "mine"
        pinned.send(pinned.status(WRONG_PIN, messages=1))
        assert "id" not in (await server.pull()).request
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
async def test_a_server_that_refuses_every_pin_is_not_asked_without_end(errors: Errors) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors),
    ):
        pull = await server.pull()
        pull.send(pull.status(WRONG_PIN, messages=2))
        await round_trip(consumer)
        assert server.idle
    assert errors.empty()


async def test_a_fetch_that_loses_its_pin_asks_again_without_it_and_raises_nothing() -> None:
    async with scripted(**PINNED) as (server, consumer):
        consumer.on_pin(pins := Pins())
        for pin_id in (None, "mine"):
            fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
            pull = await server.pull()
            assert pull.request.get("id") == pin_id
            pull.send(pinned_message(pull))
            await fetching
        fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull), pull.status(WRONG_PIN, messages=2))
        again = await server.pull()
        assert (again.batch, again.request.get("id"), again.request["group"]) == (2, None, "jobs")
        again.send(pinned_message(again, "another"), pinned_message(again, "another"))
        batch = await fetching
        assert (len(batch), batch.error) == (3, None)
        assert pins == [("mine", True), ("mine", False), ("another", True)]


@pytest.mark.parametrize("came", [0, 1])
async def test_a_fetch_without_a_pin_ends_without_an_error_when_another_is_pinned(came: int) -> None:
    async with scripted(**PINNED) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch_no_wait(5))
        pull = await server.pull()
        pull.send(pull.messages(came), pull.status(WRONG_PIN, messages=5 - came))
        batch = await fetching
        assert (len(batch), batch.error) == (came, None)


async def test_fetches_and_consumes_of_one_object_share_their_pin() -> None:
    async with scripted(**PINNED) as (server, consumer):
        fetching = asyncio.create_task(consumer.next(HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull))
        assert await fetching
        async with consumer.messages(max_messages=2, expires=HOUR):
            assert (await server.pull()).request["id"] == "mine"


async def test_a_header_of_that_name_means_nothing_where_no_client_is_pinned() -> None:
    async with scripted(priority_groups=["jobs"], priority_policy="overflow") as (server, consumer):
        for _ in range(2):
            fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
            pull = await server.pull()
            assert "id" not in pull.request
            pull.send(pinned_message(pull))
            await fetching


async def test_a_listener_that_fails_or_was_removed_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: PinEvent) -> None:
        raise ValueError("no")

    async with scripted(**PINNED) as (server, consumer):
        consumer.on_pin(fail)
        remove = consumer.on_pin(removed := Pins())
        consumer.on_pin(pins := Pins())
        remove()
        fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull))
        await fetching
    assert (pins, removed) == ([("mine", True)], [])
    assert "on_pin failed" in caplog.text


@pytest.mark.parametrize("how", ["fetch", "fetch_no_wait", "next"])
async def test_every_way_to_fetch_takes_the_options_of_priority_groups(
    server: ScriptedJetStream, consumer: Consumer, how: str
) -> None:
    arguments = (5,) if how != "next" else (HOUR,)
    options = {"group": "jobs", "priority": 3, "min_pending": 10, "min_ack_pending": 20}
    fetching = asyncio.create_task(getattr(consumer, how)(*arguments, **options))
    pull = await server.pull()
    assert options.items() <= pull.request.items()
    pull.send(pull.status("404 No Messages"))
    assert not await fetching
