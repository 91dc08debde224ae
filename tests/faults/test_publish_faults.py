"""Publishing while servers die, leaders change, connections break and acknowledgements are lost.

What was acknowledged is in the stream, and nothing is in it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from functools import partial

import pytest

import jetspark
from jetspark import BatchPublishError, Connection, ConsumerConfig, Event, PubAck, Timeout
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.atomic import AtomicBatch
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.jetstream.publish.publisher import Publisher
from jetspark.jetstream.stream import Stream
from jetspark.server import Cluster, Server
from jetspark.wire.headers import encode_headers
from tests.support.leaders import leader_of, step_down
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.publishing import lose_acknowledgements, make_stream
from tests.support.watch import Watch, eventually

WRITERS = ("a", "b", "c")


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {}


@pytest.fixture(scope="module")
def nats_cluster_options() -> dict[str, object]:
    return {}


async def read_all(stream: Stream, ledger: Ledger) -> None:
    """Read the whole stream, in its order."""
    consumer = await stream.create_consumer(ConsumerConfig(ack_policy="none", mem_storage=True))
    wanted = (await stream.info()).state.messages
    while wanted > 0:
        batch = await consumer.fetch(min(wanted, 5000), expires=30.0)
        assert batch, f"{wanted} messages of the stream cannot be read"
        wanted -= len(batch)
        for message in batch:
            ledger.read(message.data)


class Traffic:
    """Writers that send without a pause, and note what is acknowledged."""

    def __init__(self, pub: Publisher, ledger: Ledger) -> None:
        self._pub = pub
        self._ledger = ledger
        self._stopping = False

    async def write(self, writer: str) -> None:
        while not self._stopping:
            payload = self._ledger.attempt(writer, size=100)
            future = await self._pub.send("orders.new", payload)
            future.add_done_callback(partial(self._note, payload))
            if self._ledger.random.random() < 0.02:
                await asyncio.sleep(self._ledger.random.random() / 100)

    def _note(self, payload: bytes, done: asyncio.Future[PubAck]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._ledger.acknowledge(payload)

    async def progress(self, count: int = 200) -> float:
        """Wait until so many more are acknowledged; returns how long that took."""
        start, goal = time.monotonic(), self._pub.acked + count
        async with asyncio.timeout(60):  # an election that fails is held again after 4 to 9 seconds
            while self._pub.acked < goal:
                await asyncio.sleep(0.005)
        return time.monotonic() - start

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        writers = [asyncio.create_task(self.write(writer)) for writer in WRITERS]
        try:
            yield
            self._stopping = True
            await asyncio.gather(*writers)
        finally:
            for task in writers:
                task.cancel()


# --- one server


@pytest.mark.faults
@pytest.mark.parametrize("window", [1, 100, 4096])
async def test_a_server_that_is_killed_and_started_again_loses_nothing_and_keeps_the_order(
    server: Server, ledger: Ledger, watch: Watch, window: int
) -> None:
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, storage="file")
        # Only the reconnect makes it publish again, not the time that passes.
        async with js.publisher(window, timeout=60.0, ack_timeout=60.0) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                for round_ in range(1, 4):
                    await traffic.progress()
                    await asyncio.sleep(ledger.random.random() / 10)
                    server.kill()
                    await asyncio.sleep(ledger.random.random() / 5)
                    await asyncio.to_thread(server.start)
                    await watch.until(Event.RECONNECTED, round_)
                    assert await traffic.progress() < 30
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True)


@pytest.mark.faults
@pytest.mark.parametrize("window", [1, 1000])
async def test_a_connection_that_is_cut_again_and_again_loses_nothing_and_keeps_the_order(
    server: Server, proxy: TCPProxy, ledger: Ledger, watch: Watch, window: int
) -> None:
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        async with js.publisher(window, timeout=60.0) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                for round_ in range(1, 11):
                    await traffic.progress(50)
                    await asyncio.sleep(ledger.random.random() / 50)
                    proxy.cut()
                    await watch.until(Event.RECONNECTED, round_)
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True)


async def test_acknowledgements_that_are_lost_are_asked_for_again_and_nothing_is_stored_twice(
    server: Server, proxy: TCPProxy, ledger: Ledger
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        dropped = lose_acknowledgements(proxy, lambda _: ledger.random.random() < 0.05)
        async with js.publisher(100, ack_timeout=0.1, timeout=60.0) as pub:
            for _ in range(1000):
                await pub.send("orders.new", ledger.attempt())
            await pub.flush(60)
            ledger.acknowledge_all()
        proxy.server_to_client = None
        assert len(dropped) > 10
        assert pub.duplicates >= 10
        assert pub.acked == 1000
        await read_all(stream, ledger)
    ledger.verify(complete=True)


async def test_messages_that_are_lost_on_the_way_are_published_again(
    server: Server, proxy: TCPProxy, ledger: Ledger
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        lost = 0

        def drop(data: bytes) -> bytes | None:
            """Whole chunks, and only those that begin and end with a message."""
            nonlocal lost
            if data.startswith(b"HPUB orders.") and data.endswith(b"\r\n") and lost < 3:
                lost += 1
                return None
            return data

        proxy.client_to_server = drop
        async with js.publisher(100, ack_timeout=0.1, timeout=60.0) as pub:
            for _ in range(500):
                await pub.send("orders.new", ledger.attempt())
            await pub.flush(60)
            ledger.acknowledge_all()
        assert lost == 3
        await read_all(stream, ledger)
    # What is lost in the middle of a connection, which TCP does not do, comes after what was not.
    ledger.verify(complete=True, ordered=False)


@pytest.mark.faults
async def test_a_server_that_stops_for_a_while_is_waited_for(server: Server, ledger: Ledger) -> None:
    async with await jetspark.connect(server.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        async with js.publisher(50, ack_timeout=0.2) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                await traffic.progress()
                server.pause()
                await asyncio.sleep(1.0)  # several ack_timeouts
                server.resume()
                assert await traffic.progress() < 30
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True)


@pytest.mark.faults
async def test_single_messages_with_ids_survive_kills_each_stored_once(
    server: Server, ledger: Ledger, watch: Watch
) -> None:
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, storage="file")
        stopping = False

        async def write() -> None:
            while not stopping:
                payload = ledger.attempt()
                await js.publish("orders.new", payload, msg_id=payload.decode(), retry_for=30.0)
                ledger.acknowledge(payload)

        writing = asyncio.create_task(write())
        for round_ in range(1, 4):
            await asyncio.sleep(ledger.random.random() / 5)
            server.kill()
            await asyncio.to_thread(server.start)
            await watch.until(Event.RECONNECTED, round_)
            goal = len(ledger.acknowledged) + 20
            await eventually(partial(lambda goal: len(ledger.acknowledged) >= goal, goal), "acknowledgements")
        stopping = True
        await writing
        await read_all(stream, ledger)
    ledger.verify(complete=True)


# --- a cluster


@pytest.fixture
async def clustered(cluster: Cluster) -> AsyncIterator[JetStream]:
    async with await jetspark.connect(cluster.urls) as nc:
        yield JetStream(nc, timeout=30)


names = (f"ORDERS{number}" for number in range(1000))


@contextlib.asynccontextmanager
async def replicated(js: JetStream, **config: object) -> AsyncIterator[Stream]:
    """A stream of three replicas, which is gone after the test: its subjects are those of all tests."""
    stream = await make_stream(js, name=next(names), num_replicas=3, **config)
    try:
        yield stream
    finally:
        await js.delete_stream(stream.name)


@contextlib.asynccontextmanager
async def killed(member: Server, cluster: Cluster) -> AsyncIterator[None]:
    member.kill()
    try:
        yield
    finally:
        await asyncio.to_thread(cluster.start)


@pytest.mark.parametrize("window", [1, 200])
async def test_when_the_leader_is_killed_it_goes_on_and_nothing_is_stored_twice(
    cluster: Cluster, clustered: JetStream, ledger: Ledger, window: int
) -> None:
    async with replicated(clustered, storage="file") as stream:
        async with clustered.publisher(window, timeout=60.0, ack_timeout=2.0) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                await traffic.progress()
                async with killed(await leader_of(stream.info, cluster), cluster):
                    await traffic.progress()
                    await traffic.progress()
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True, ordered=window == 1)


@pytest.mark.parametrize("window", [1, 200])
async def test_when_leaders_step_down_it_goes_on_and_nothing_is_stored_twice(
    cluster: Cluster, clustered: JetStream, ledger: Ledger, window: int
) -> None:
    async with replicated(clustered) as stream:
        async with clustered.publisher(window, timeout=60.0, ack_timeout=0.5) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                for _ in range(5):
                    await traffic.progress(100)
                    await leader_of(stream.info, cluster)
                    await step_down(stream.stepdown_leader)
                    await traffic.progress(100)
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True, ordered=window == 1)


async def test_single_messages_with_ids_survive_the_leader(
    cluster: Cluster, clustered: JetStream, ledger: Ledger
) -> None:
    async with replicated(clustered, storage="file") as stream:

        async def write(count: int) -> None:
            for _ in range(count):
                payload = ledger.attempt()
                await clustered.publish("orders.new", payload, msg_id=payload.decode(), retry_for=30.0)
                ledger.acknowledge(payload)

        await write(20)
        async with killed(await leader_of(stream.info, cluster), cluster):
            await write(20)
        await read_all(stream, ledger)
    ledger.verify(complete=True)


async def test_when_the_whole_cluster_is_killed_and_started_again_nothing_is_lost_or_stored_twice(
    cluster: Cluster, clustered: JetStream, ledger: Ledger
) -> None:
    async with replicated(clustered, storage="file") as stream:
        async with clustered.publisher(timeout=60.0, ack_timeout=2.0) as pub:
            traffic = Traffic(pub, ledger)
            async with traffic.running():
                await traffic.progress()
                cluster.kill()
                await asyncio.to_thread(cluster.start)
                await traffic.progress()
        assert (pub.pending, pub.failed) == (0, 0)
        await read_all(stream, ledger)
    ledger.verify(complete=True, ordered=False)


async def commit(batch: AtomicBatch) -> None:
    """Commit until it is known to be stored. A leader that steps down may not answer."""
    while True:
        try:
            await batch.commit()
        except Timeout:
            continue
        except BatchPublishError as error:
            assert error.err_code == 10201, error  # noqa: PT017
        return


async def test_a_batch_is_stored_whole_and_once_while_leaders_step_down(
    cluster: Cluster, clustered: JetStream, ledger: Ledger
) -> None:
    async with replicated(clustered, allow_atomic=True) as stream:

        async def step_down_thrice() -> None:
            for _ in range(3):
                await asyncio.sleep(ledger.random.random() / 5)
                await leader_of(stream.info, cluster)
                await step_down(stream.stepdown_leader)

        stepping = asyncio.create_task(step_down_thrice())
        committed = 0
        while not stepping.done() or committed < 3:
            batch = clustered.atomic_batch(timeout=2.0, retry_for=30.0)
            for _ in range(50):
                payload = ledger.attempt()
                batch.add("orders.new", payload, msg_id=payload.decode())
            await commit(batch)
            committed += 1
            ledger.acknowledge_all()
        await stepping
        await read_all(stream, ledger)
    ledger.verify(complete=True)


async def test_the_question_whether_an_id_was_stored_is_answered_by_a_replicated_stream(
    cluster: Cluster, clustered: JetStream, nc_through_proxy: tuple[Connection, TCPProxy]
) -> None:
    nc, proxy = nc_through_proxy
    async with replicated(clustered) as stream:

        def lost(_: bytes) -> bool:
            proxy.server_to_client = None
            proxy.cut()
            return True

        lose_acknowledgements(proxy, lost)
        ack = await JetStream(nc).publish("orders.new", b"1", msg_id="a1", expected_last_sequence=0)
        assert (ack.sequence, ack.duplicate) == (1, True)
        assert (await stream.info()).state.messages == 1


class Way:
    """One way to publish, through a proxy that counts how often the server was still storing the id."""

    def __init__(self, proxy: TCPProxy, publishing: Coroutine[object, object, None]) -> None:
        self.refusals = 0
        self.done = asyncio.create_task(publishing)
        proxy.server_to_client = self._count

    def _count(self, data: bytes) -> bytes:
        self.refusals += data.count(b"10158")
        return data


async def publish_one(js: JetStream, name: str) -> None:
    await js.publish("orders.one", name.encode(), msg_id=name, timeout=0.3, retry_for=60.0)


async def publish_many(js: JetStream, name: str) -> None:
    async with js.publisher(timeout=60.0, ack_timeout=0.3) as pub:
        for number in range(20):
            pub.publish("orders.many", f"{name}-{number}".encode())


async def publish_in_bulk(js: JetStream, name: str) -> None:
    publisher = BulkPublisher(js.api, 20, max_bytes=1_000_000, timeout=60.0)
    publisher._window.ack_timeout = 0.3
    ids = [f"{name}-{number}" for number in range(20)]
    blocks = [encode_headers({"Nats-Msg-Id": each}) for each in ids]
    await publisher.send(
        [Outgoing("orders.bulk", each, block, each.encode()) for each, block in zip(ids, blocks, strict=True)]
    )
    await publisher.finish()


async def publish_atomically(js: JetStream, name: str) -> None:
    batch = js.atomic_batch(timeout=0.3, retry_for=60.0)
    for number in range(3):
        batch.add("orders.atomic", f"{name}-{number}".encode(), msg_id=f"{name}-{number}")
    await commit(batch)


WAYS = (publish_one, publish_many, publish_in_bulk, publish_atomically)


async def publish_while_followers_stop(stream: Stream, cluster: Cluster, name: str) -> bool:
    """Publish in every way. Whether each was told that its message is still being stored.

    A leader that changes at that moment says something else.
    """
    leader = await leader_of(stream.info, cluster)
    followers = [member for member in cluster.servers if member is not leader]
    async with contextlib.AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(TCPProxy(leader.port)) for _ in WAYS]
        connections = [await jetspark.connect(proxy.url, discover_servers=False) for proxy in proxies]
        for nc in connections:
            await stack.enter_async_context(nc)
        try:
            for member in followers:
                member.pause()
            running = [
                Way(proxy, publish(JetStream(nc), f"{name}-{publish.__name__}"))
                for publish, proxy, nc in zip(WAYS, proxies, connections, strict=True)
            ]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    while not all(way.refusals > 1 or way.done.done() for way in running):
                        await asyncio.sleep(0.01)
        finally:
            for member in followers:
                member.resume()
        await asyncio.gather(*(way.done for way in running))
    return all(way.refusals for way in running)


async def test_what_slow_followers_are_still_storing_is_published_again_until_it_is_acknowledged(
    cluster: Cluster, clustered: JetStream
) -> None:
    async with replicated(clustered, allow_atomic=True) as stream:
        rounds = 1
        while not await publish_while_followers_stop(stream, cluster, f"round {rounds}"):
            rounds += 1
            assert rounds < 5
        found = Counter([(await stream.get_message(number + 1)).data for number in range(44 * rounds)])
        assert set(found.values()) == {1}
        assert (await stream.info()).state.messages == 44 * rounds


@pytest.fixture
async def nc_through_proxy(cluster: Cluster) -> AsyncIterator[tuple[Connection, TCPProxy]]:
    async with (
        TCPProxy(cluster.servers[0].port) as proxy,
        await jetspark.connect(proxy.url, discover_servers=False) as nc,
    ):
        yield nc, proxy
