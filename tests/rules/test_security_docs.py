"""The permissions in `docs/security.md`: each role does its work with exactly these, and nothing else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import jetspark
from jetspark import ConsumerConfig, Error, PermissionsViolation, StreamConfig
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.control.switch import control_stream, set_switch
from jetspark.server import Server
from jetspark.spark import connections
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.read.stream import JetStreamStreamReader
from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.write.rows import RowEncoder
from jetspark.spark.write.task import write_rows
from tests.logs.support import Running
from tests.support.effort import effort

DOC = Path(__file__).parents[2] / "docs" / "security.md"
CONF = re.findall(r"```conf\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)[0]
ROLES = ["publisher", "consumer", "spark_reader", "spark_writer", "agent"]


def permissions(role: str) -> list[str]:
    """The subjects that the page allows to a role."""
    block = CONF.partition(f"user: {role},")[2].partition("{ user:")[0]
    return re.findall(r'"([^"]+)"', re.sub("#.*", "", block))


@pytest.fixture(autouse=True)
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of the configuration."""
    for role in ("admin", *ROLES):
        monkeypatch.setenv(f"{role.upper()}_PASSWORD", password(role))


def password(role: str) -> str:
    return f"secret-of-{role}"


def connect(server: Server, role: str) -> Any:
    return jetspark.connect(
        server.url, user=role, password=password(role), inbox_prefix=f"_INBOX_{role}", request_timeout=2.0
    )


def spark_options(server: Server, role: str, **options: str) -> dict[str, str]:
    login = {"user": role, "password": password(role), "inboxPrefix": f"_INBOX_{role}"}
    return {"servers": server.url, **login, **options}


async def prepare(server: Server) -> None:
    """What the administrator does once: streams, a consumer, the switch."""
    async with connect(server, "admin") as nc:
        js = nc.jetstream()
        for name in ("ORDERS", "RESULTS", "LOGS"):
            config = StreamConfig(
                name=name,
                subjects=[f"{name.lower()}.>"],
                storage="memory",
                allow_direct=True,
                allow_atomic=True,
            )
            await js.create_stream(config)
        await js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
        await control_stream(js)
        await set_switch(js, paused=False)


async def fill(server: Server, count: int) -> None:
    async with connect(server, "admin") as nc, nc.jetstream().publisher() as publisher:
        for number in range(count):
            await publisher.send("orders.new", b"%d" % number)


# --- the roles


async def publisher(server: Server, tmp_path: Path) -> None:
    async with connect(server, "publisher") as nc:
        js = nc.jetstream()
        assert (await js.publish("orders.new", b"1")).stream == "ORDERS"
        async with js.publisher() as many:
            for number in range(100):
                await many.send("orders.new", b"%d" % number)
        batch = js.atomic_batch()
        for _ in range(3):
            batch.add("orders.batch", b"x")
        assert (await batch.commit()).batch_size == 3


async def consumer(server: Server, tmp_path: Path) -> None:
    await fill(server, 20)
    async with connect(server, "consumer") as nc:
        found = await nc.jetstream().get_consumer("ORDERS", "billing")
        batch = await found.fetch(4, expires=5.0)
        assert len(batch) == 4
        first, second, third, fourth = batch
        await first.ack()
        await second.ack_sync()
        await third.in_progress()
        await third.term("no")
        await fourth.nak()
        message = await found.next(expires=5.0)
        assert message is not None
        await message.ack_sync()
        async with found.messages() as messages:
            async for each in messages:
                await each.ack_sync()
                break
        assert (await found.info()).name == "billing"
        assert nc.last_error is None


async def spark_reader(server: Server, tmp_path: Path) -> None:
    await fill(server, 100)
    read = spark_options(server, "spark_reader", stream="ORDERS")
    table = JetStreamDataSource({**read, "subjects": "orders.new", "startingTimestamp": "2020-01-01"})
    reader = table.reader(table.schema())
    rows = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in rows) >= 100
    query = JetStreamDataSource({**read, "startingPosition": "earliest"})
    stream = query.streamReader(query.schema())
    assert isinstance(stream, JetStreamStreamReader)
    begin, end = stream.initialOffset(), stream.latestOffset()
    rows = [batch for part in stream.partitions(begin, end) for batch in stream.read(part)]
    assert sum(batch.num_rows for batch in rows) >= 100
    stream.commit(end)
    assert_nothing_was_denied()


async def spark_writer(server: Server, tmp_path: Path) -> None:
    for mode in ("async", "atomic"):
        options = spark_options(server, "spark_writer", subject="results.a", publishMode=mode)
        schema = pa.schema([("data", pa.binary())])
        source = JetStreamDataSource(options)
        from pyspark.sql.pandas.types import from_arrow_schema

        source.writer(from_arrow_schema(schema), overwrite=False)
        parsed = parse_options(options)
        encoder = RowEncoder(subject="results.a", stream=None, id_prefix=mode, place="here", max_size=1000)
        with process_connection(parsed.connection, retry_for=1.0) as connection:
            written = write_rows(connection, parsed, encoder, [{"data": [b"one", b"two"]}])
        assert (written.rows, written.duplicates) == (2, 0)
    assert_nothing_was_denied()


async def agent(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    options = ShipOptions(
        patterns=[str(log)], host="web1", once=True, positions=tmp_path / "positions.json", save_every=1e6
    )
    async with connect(server, "agent") as nc:
        js = nc.jetstream()
        for number in range(3):
            with log.open("a") as file:
                file.write(f"line {number}\n")
            running = Running(js, options)
            await running.end()
            assert running.notes == []
            if number == 0:
                positions = json.loads(options.positions.read_bytes())
            elif number == 1:  # As after a crash: the third start reads what the second one stored.
                options.positions.write_text(json.dumps({**positions, "since": time.time() - 60}))
        assert nc.last_error is None
    async with connect(server, "admin") as nc:
        state = (await nc.jetstream().get_stream("LOGS")).cached_info.state
        assert state.messages == 3


WORK: dict[str, Callable[[Server, Path], Awaitable[None]]] = {
    each.__name__: each for each in (publisher, consumer, spark_reader, spark_writer, agent)
}


@pytest.fixture(autouse=True)
def no_connection_left() -> Iterator[None]:
    """Close the connections that Spark's processes keep."""
    yield
    for connection in connections._connections.values():
        connection._bridge.close()
    connections._connections.clear()


def assert_nothing_was_denied() -> None:
    assert [each.js.connection.last_error for each in connections._connections.values()] == [None]


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_works_with_exactly_the_permissions_of_the_page(role: str, tmp_path: Path) -> None:
    with Server(config=CONF) as server:
        await prepare(server)
        await WORK[role](server, tmp_path)


@pytest.mark.parametrize("role", ROLES)
async def test_no_role_can_read_what_is_for_others(role: str) -> None:
    with Server(config=CONF) as server:
        await prepare(server)
        async with connect(server, role) as nc:
            for subject in (">", "_INBOX.>", "_INBOX_admin.>", "orders.>", "logs.>", "$JS.EVENT.>"):
                subscription = await nc.subscribe(subject)
                with pytest.raises(PermissionsViolation):
                    await subscription.next(timeout=5.0)
            with pytest.raises(PermissionsViolation):
                await nc.request("$JS.API.STREAM.DELETE.ORDERS", timeout=5.0)


NEEDED = [
    (role, subject)
    for role in ROLES
    for subject in permissions(role)
    # Without the permission to pull, a task of Spark waits for two minutes.
    if "spark" not in role or "NEXT" not in subject
]


@pytest.mark.parametrize(("role", "subject"), NEEDED[: effort(3, len(NEEDED))])
async def test_each_permission_is_needed(role: str, subject: str, tmp_path: Path) -> None:
    head, user, rest = CONF.partition(f"user: {role},")
    config = head + user + rest.replace(f'"{subject}"', '"unused"', 1)
    with Server(config=config) as server:
        await prepare(server)
        with pytest.raises((Error, AssertionError)):
            await WORK[role](server, tmp_path)
