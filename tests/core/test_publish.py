"""Publishing: what arrives, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark import (
    Connection,
    Event,
    Headers,
    HeadersNotSupported,
    MaxPayloadError,
    UsageError,
    connect,
)
from jetspark.server import Server
from jetspark.wire import PubFrame, encode
from tests.support.cases import for_each
from tests.support.raw import RawClient
from tests.support.scripted import ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import Watch, eventually


async def test_a_message_arrives_as_it_was_published(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, b"hello")
    message = await subscription.next()
    assert (message.subject, message.data, message.reply) == (subject, b"hello", "")
    assert message.headers == {}


async def test_publish_need_not_be_awaited(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    for number in range(1000):
        nc.publish(subject, b"%d" % number)
    assert [(await subscription.next()).data for _ in range(1000)] == [b"%d" % n for n in range(1000)]


async def test_messages_of_one_publisher_arrive_in_order_at_another_connection(
    nc: Connection, other: Connection, subject: str
) -> None:
    subscription = await other.subscribe(subject)
    await other.flush()
    for number in range(5000):
        await nc.publish(subject, b"%d" % number)
    assert [int((await subscription.next()).data) for _ in range(5000)] == list(range(5000))


async def test_a_reply_subject_arrives(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, b"?", reply="answers.here")
    assert (await subscription.next()).reply == "answers.here"


@pytest.mark.parametrize(
    "headers",
    [
        {"Plain": "value"},
        {"Many": ["one", "two", "one"], "Single": "1"},
        {"Unicode": "grüße ☃ 🎉", "Empty": "", "Spaces": "  kept  ", "Colons": "a: b: c"},
        Headers({"From": "a mapping of ours"}),
    ],
)
async def test_headers_arrive(nc: Connection, subject: str, headers: dict[str, str]) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, b"data", headers=headers)
    message = await subscription.next()
    assert message.headers == headers
    assert message.data == b"data"


async def test_several_values_of_a_header_keep_their_order(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, headers={"Tag": ["b", "a", "b"]})
    headers = (await subscription.next()).headers
    assert headers["tag"] == "b"
    assert headers.get_all("TAG") == ["b", "a", "b"]


async def test_an_empty_payload_arrives(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject)
    await nc.publish(subject, b"", headers={"Only": "headers"})
    assert (await subscription.next()).data == b""
    message = await subscription.next()
    assert (message.data, message.headers["Only"]) == (b"", "headers")


async def test_a_payload_of_exactly_max_payload_arrives(nc: Connection, subject: str) -> None:
    assert nc.max_payload == 1024 * 1024
    subscription = await nc.subscribe(subject)
    data = bytes(range(256)) * 4096
    await nc.publish(subject, data)
    assert (await subscription.next()).data == data


async def test_payloads_with_protocol_text_in_them_arrive(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    data = b"\r\nMSG x 1 3\r\nabc\r\nPING\r\n-ERR 'no'\r\n"
    await nc.publish(subject, data)
    assert (await subscription.next()).data == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_any_kind_of_bytes_is_data(nc: Connection, subject: str, kind: type) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, kind(b"data"))
    assert (await subscription.next()).data == b"data"


async def test_what_is_changed_after_publishing_is_not_sent_changed(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    data = bytearray(b"before")
    nc.publish(subject, untyped(data))
    data[:] = b"after!"
    assert (await subscription.next()).data == b"before"


async def test_no_echo_keeps_own_messages_away(
    shared_server: Server, other: Connection, subject: str
) -> None:
    async with connect(shared_server.url, no_echo=True) as quiet:
        subscription = await quiet.subscribe(subject)
        await quiet.publish(subject, b"own")
        await quiet.flush()
        await other.publish(subject, b"another's")
        assert (await subscription.next()).data == b"another's"


# --- refused locally


async def test_a_payload_over_the_limit_is_refused_and_the_connection_kept(
    nc: Connection, subject: str
) -> None:
    subscription = await nc.subscribe(subject)
    with pytest.raises(MaxPayloadError, match=r"1048577 bytes, the server takes 1048576"):
        nc.publish(subject, bytes(nc.max_payload + 1))
    await nc.publish(subject, b"after")
    assert (await subscription.next()).data == b"after"
    assert nc.statistics.reconnects == 0


async def test_headers_count_for_the_payload_limit(nc: Connection, subject: str) -> None:
    with pytest.raises(MaxPayloadError):
        nc.publish(subject, bytes(nc.max_payload), headers={"One": "more"})
    await nc.flush()
    assert nc.statistics.reconnects == 0


async def test_a_limit_that_the_server_lowers_is_respected_at_once() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()
        peer.send_info(max_payload=1000)
        await eventually(lambda: nc.max_payload == 1000, "the INFO with the new limit")
        with pytest.raises(MaxPayloadError, match="the server takes 1000"):
            nc.publish("subject", bytes(1001))
        await nc.publish("subject", bytes(1000))
        await peer.expect(PubFrame)
        assert nc.connected


async def test_a_limit_that_a_reload_lowers_costs_one_reconnect_and_is_known_then(
    server: Server, subject: str, watch: Watch
) -> None:
    """nats-server 2.15 does not tell its clients: they learn it from the first message it refuses."""
    async with connect(server.url, **watch.listeners) as nc:
        server.reload(max_payload=1000)
        await nc.publish(subject, bytes(1001))
        assert "Maximum Payload Violation" in str(await watch.until(Event.DISCONNECTED))
        await watch.until(Event.RECONNECTED)
        with pytest.raises(MaxPayloadError, match="the server takes 1000"):
            nc.publish(subject, bytes(1001))
        await nc.publish(subject, bytes(1000))
        await nc.flush()
        assert nc.statistics.reconnects == 1


@for_each(
    "headers",
    [
        {"Key": "1\r\nNats-Msg-Id: A"},
        {"Key": "line\nbreak"},
        {"Key": "nul\0"},
        {"Key\r\nOther": "x"},
        {"Key: x": "y"},
        {"": "empty name"},
        {"Ümlaut": "x"},
        {"Key": 1},
        {"Key": b"bytes"},
        {1: "x"},
        "Key: value",
    ],
)
async def test_headers_that_would_break_out_are_refused(nc: Connection, subject: str, headers: Any) -> None:
    subscription = await nc.subscribe(subject)
    with pytest.raises(UsageError, match="headers"):
        nc.publish(subject, b"bad", headers=headers)
    await nc.publish(subject, b"good")
    assert (await subscription.next()).data == b"good"


@for_each("data", ["text", 5, None, ["list"], {"a": 1}])
async def test_data_that_is_not_bytes_is_refused(nc: Connection, subject: str, data: Any) -> None:
    with pytest.raises(UsageError, match="data must be bytes"):
        nc.publish(subject, data)


@for_each(
    "bad",
    [
        "",
        " ",
        "a b",
        "a\r\nPUB x 0",
        "a\0",
        "a..b",
        ".a",
        "a.",
        "a.*",
        "a.>",
        "*",
        ">",
        "tab\there",
        b"bytes",
        5,
    ],
)
async def test_subjects_that_cannot_be_published_to_are_refused(nc: Connection, bad: str) -> None:
    with pytest.raises(UsageError, match="subject"):
        nc.publish(bad, b"")
    if bad:
        with pytest.raises(UsageError, match="reply"):
            nc.publish("fine", b"", reply=bad)
    await nc.flush()
    assert nc.statistics.reconnects == 0


async def test_what_was_refused_is_not_counted(nc: Connection) -> None:
    for subject, data in (("a b", b""), ("a", bytes(nc.max_payload + 1))):
        with pytest.raises(UsageError):
            nc.publish(subject, data)
    assert nc.statistics.out_msgs == 0


async def test_headers_are_refused_when_the_server_does_not_take_them() -> None:
    async with ScriptedServer(info={"headers": False}) as server, connect(server.url) as nc:
        with pytest.raises(HeadersNotSupported):
            nc.publish("subject", b"", headers={"A": "b"})
        await nc.publish("subject", b"plain")
        peer = await server.peer()
        assert await peer.expect(PubFrame) == PubFrame(b"subject", b"", b"", b"plain")


# --- received messages


async def test_the_repr_of_a_message_tells_subject_reply_and_size(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, b"secret", reply="r")
    message = await subscription.next()
    assert repr(message) == f"Msg(subject={subject!r}, reply='r', 6 bytes)"


async def test_messages_are_equal_only_to_themselves(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, b"same")
    await nc.publish(subject, b"same")
    one, two = await subscription.next(), await subscription.next()
    assert one == one  # noqa: PLR0124
    assert one != two
    assert len({one, two}) == 2


async def test_responding_without_a_reply_subject_is_refused(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await nc.publish(subject)
    message = await subscription.next()
    with pytest.raises(UsageError, match=r"no reply subject"):
        message.respond(b"nobody listens")


async def test_subjects_that_are_not_utf8_survive(
    nc: Connection, shared_server: Server, subject: str
) -> None:
    """Nobody must write them, but other clients do: they are read, and go out again as they came."""
    subscription = await nc.subscribe(f"{subject}.*")
    answers = await nc.subscribe(f"answers.{subject}.*")
    await nc.flush()
    strange = b"answers.%b.\xff\xfe" % subject.encode()
    with RawClient(shared_server.port) as raw:
        raw.send(encode.pub(b"%b.\xff\xfe" % subject.encode(), strange, b"data"))
        message = await subscription.next()
    assert message.subject == f"{subject}.\udcff\udcfe"
    assert message.subject.encode("utf-8", "surrogateescape").endswith(b"\xff\xfe")
    assert repr(message)
    await message.respond(b"back")
    assert (await answers.next()).subject.encode("utf-8", "surrogateescape") == strange


async def test_a_header_block_that_cannot_be_read_is_kept(
    nc: Connection, shared_server: Server, subject: str
) -> None:
    subscription = await nc.subscribe(subject)
    await nc.flush()
    with RawClient(shared_server.port) as raw:
        raw.send(encode.hpub(subject.encode(), b"", b"NATS/1.0\r\nno colon\r\n\r\n", b"data"))
        message = await subscription.next()
    assert message.headers == {"": "NATS/1.0\r\nno colon\r\n\r\n"}
    assert message.data == b"data"
    assert nc.connected
