"""The account, domains and API prefixes, and servers without JetStream."""

from __future__ import annotations

import pytest

import jetspark
from jetspark import (
    Connection,
    JetStreamNotEnabled,
    JetStreamNotEnabledForAccount,
    StreamNotFound,
    Timeout,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.server import Server, run
from tests.jetstream.support import memory

ACCOUNTS = """
accounts {
  STORE {
    jetstream: enabled
    users: [{ user: store, password: secret }]
    exports: [
      { service: "$JS.API.>", response_type: stream }
      { service: "orders.>" }
    ]
  }
  SHOP {
    users: [{ user: shop, password: secret }]
    imports: [
      { service: { account: STORE, subject: "$JS.API.>" }, to: "store.api.>" }
      { service: { account: STORE, subject: "orders.>" } }
    ]
  }
}
"""


async def test_account_info_counts_what_the_account_uses(js: JetStream) -> None:
    before = await js.account_info()
    stream = await js.create_stream(memory("A", "a"))
    await stream.create_consumer(ConsumerConfig(durable_name="c"))
    await js.publish("a", b"x" * 100)
    info = await js.account_info()
    assert (before.streams, before.consumers, before.memory) == (0, 0, 0)
    assert (info.streams, info.consumers) == (1, 1)
    assert info.memory > 100
    assert info.limits.max_streams == -1
    assert info.api.total > before.api.total
    assert info.api.level >= 1


async def test_a_context_tells_what_it_is(nc: Connection) -> None:
    js = JetStream(nc, timeout=2.5)
    assert js.connection is nc
    assert js.timeout == 2.5
    assert js.api.prefix == "$JS.API"
    assert "$JS.API" in repr(js)


# --- domains


async def test_a_domain_is_reached_by_its_name_and_by_none() -> None:
    with run(domain="hub") as server:
        async with await jetspark.connect(server.url) as nc:
            js = JetStream(nc, domain="hub")
            assert js.api.prefix == "$JS.hub.API"
            stream = await js.create_stream(memory("A", "a", allow_direct=True))
            assert (await js.publish("a", b"x")).domain == "hub"
            assert (await stream.get_message(1)).data == b"x"
            assert [message.data async for message in stream.get_messages()] == [b"x"]
            consumer = await stream.create_consumer(ConsumerConfig(name="c", filter_subject="*"))
            assert [message.data for message in await consumer.fetch(1)] == [b"x"]
            assert (await js.account_info()).domain == "hub"
            assert (await JetStream(nc).get_stream("A")).name == "A"


async def test_a_domain_that_is_not_there_is_said_to_be_unreachable(nc: Connection) -> None:
    js = JetStream(nc, domain="elsewhere", timeout=3)
    with pytest.raises(JetStreamNotEnabled, match="domain"):
        await js.account_info()


async def test_a_domain_and_a_prefix_exclude_each_other(nc: Connection) -> None:
    with pytest.raises(UsageError, match="domain and api_prefix"):
        JetStream(nc, domain="hub", api_prefix="x")
    with pytest.raises(UsageError, match="domain"):
        JetStream(nc, domain="a.b")
    with pytest.raises(UsageError, match="api_prefix"):
        JetStream(nc, api_prefix="a..b")
    with pytest.raises(UsageError, match="timeout"):
        JetStream(nc, timeout=0)


# --- prefixes and accounts


async def test_the_api_of_another_account_is_reached_under_the_prefix_it_is_imported_with() -> None:
    with run(config=ACCOUNTS) as server:
        async with await jetspark.connect(server.url, user="shop", password="secret") as nc:
            js = JetStream(nc, api_prefix="store.api.")
            stream = await js.create_stream(memory("ORDERS", "orders.>", allow_direct=True))
            assert (await js.publish("orders.new", b"1")).stream == "ORDERS"
            await js.publish("orders.new", b"2")
            assert (await stream.get_message(2)).data == b"2"
            assert [message.data async for message in stream.get_messages()] == [b"1", b"2"]
            consumer = await stream.create_consumer(
                ConsumerConfig(durable_name="c", filter_subject="orders.*")
            )
            assert (await consumer.info()).num_pending == 2
            assert [name async for name in js.stream_names()] == ["ORDERS"]
            with pytest.raises(StreamNotFound):
                await js.get_stream("NOPE")


async def test_an_account_without_jetstream_says_so() -> None:
    with run(config=ACCOUNTS) as server:
        async with await jetspark.connect(server.url, user="shop", password="secret") as nc:
            with pytest.raises(JetStreamNotEnabledForAccount) as caught:
                await JetStream(nc).account_info()
            assert caught.value.err_code == 10039


# --- without JetStream


async def test_a_server_without_jetstream_says_so_at_once() -> None:
    with run(jetstream=False) as server:
        async with await jetspark.connect(server.url) as nc:
            js = JetStream(nc)
            with pytest.raises(JetStreamNotEnabled, match="-js"):
                await js.account_info()
            with pytest.raises(JetStreamNotEnabled):
                await js.create_stream(memory("A", "a"))
            with pytest.raises(JetStreamNotEnabled):
                await anext(aiter(js.stream_names()))


async def test_a_call_has_a_deadline_while_the_connection_is_down(server: Server) -> None:
    async with await jetspark.connect(server.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc, timeout=0.3)
        server.stop()
        with pytest.raises(Timeout):
            await js.account_info()
