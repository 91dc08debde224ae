"""Buckets: keys that are put and got, one after the other and many at once; an object that is put and got.

An object is put and got in a process of its own, whose memory is measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import itertools
import multiprocessing
import re
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import jetspark
import jetspark.blocking
import jetspark.server
from bench.harness import (
    CPU,
    SERVER_CPU,
    Column,
    Contender,
    Measurement,
    Sample,
    Stopwatch,
    on_both_loops,
    uvloop_factory,
)
from jetspark import KeyValueConfig, ObjectStoreConfig

MIB: Final = 1024 * 1024
FULL: Final = "full"
OBJECT: Final = "object"


@dataclasses.dataclass(frozen=True)
class Bed:
    """A server with a full bucket of its own for reads; each run that writes has another name."""

    url: str
    server: int | None
    value: bytes
    names: Iterator[str]

    def watch(self) -> Stopwatch:
        return Stopwatch(self.server)


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server:
        names = (f"bench{number}" for number in itertools.count())
        yield Bed(server.url, server.pid, b"x" * size, names)


@contextmanager
def bed_with_keys(size: int, count: int) -> Iterator[Bed]:
    with bed(size, count) as empty, jetspark.blocking.connect(empty.url) as nc:
        kv = nc.jetstream().create_key_value(KeyValueConfig(bucket=FULL))
        kv.put_many(dict.fromkeys(keys(count), empty.value))
        yield empty


@contextmanager
def bed_with_object(size: int, count: int) -> Iterator[Bed]:
    with bed(size, count) as empty, jetspark.blocking.connect(empty.url) as nc:
        store = nc.jetstream(timeout=60).create_object_store(ObjectStoreConfig(bucket=FULL))
        store.put(OBJECT, zeros(count))
        yield empty


# --- keys


def keys(count: int) -> list[str]:
    return [f"key.{number}" for number in range(count)]


async def put(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket=next(bed.names)))
        with bed.watch() as watch:
            for key in keys(count):
                await kv.put(key, bed.value)
        await js.delete_key_value(kv.bucket)
    return watch.sample(count)


async def put_many(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket=next(bed.names)))
        values = dict.fromkeys(keys(count), bed.value)
        with bed.watch() as watch:
            await kv.put_many(values)
        await js.delete_key_value(kv.bucket)
    return watch.sample(count)


async def put_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    js = nc.jetstream()
    bucket = next(bed.names)
    kv = await js.create_key_value(bucket=bucket)
    with bed.watch() as watch:
        for key in keys(count):
            await kv.put(key, bed.value)
    await js.delete_key_value(bucket)
    await nc.close()
    return watch.sample(count)


async def get(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        kv = await nc.jetstream().key_value(FULL)
        with bed.watch() as watch:
            for key in keys(count):
                await kv.get(key)
    return watch.sample(count)


async def get_many(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        kv = await nc.jetstream().key_value(FULL)
        with bed.watch() as watch:
            found = sum([1 async for _ in kv.get_many(keys(count))])
        check(found, count)
    return watch.sample(count)


async def get_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    kv = await nc.jetstream().key_value(FULL)
    with bed.watch() as watch:
        for key in keys(count):
            await kv.get(key)
    await nc.close()
    return watch.sample(count)


def check(found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{found} instead of {expected}")


# --- objects

#: What a process does: the server's URL, the name of a store, MiB, and a watch over time and memory.
Work: TypeAlias = Callable[[str, str, int, "Watch"], Coroutine[Any, Any, None]]


class Watch(Stopwatch):
    """A stopwatch that also looks at the memory of this process."""

    def __enter__(self) -> Watch:
        self._memory = memory("VmRSS")
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.grown = memory("VmHWM") - self._memory


def memory(field: str) -> float:
    """Memory of this process in MiB: `VmRSS` is now, `VmHWM` the most so far."""
    found = re.search(rf"{field}:\s+([0-9]+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found is not None else 0.0


class _Zeros(io.RawIOBase):
    """A file of so many bytes, which takes no memory."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._block = bytes(MIB)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._left, MIB)
        buffer[:size] = self._block[:size]
        self._left -= size
        return size


def zeros(mib: int) -> io.BufferedReader:
    return io.BufferedReader(_Zeros(mib * MIB))


class _Counter(io.BufferedIOBase):
    """A file that only counts what is written."""

    size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


async def put_object(url: str, bucket: str, mib: int, watch: Watch) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream(timeout=60)
        store = await js.create_object_store(ObjectStoreConfig(bucket=bucket))
        with watch:
            await store.put(OBJECT, zeros(mib))
        await js.delete_object_store(bucket)


async def put_object_nats_py(url: str, bucket: str, mib: int, watch: Watch) -> None:
    import nats

    nc = await nats.connect(url)
    js = nc.jetstream(timeout=60)
    store = await js.create_object_store(bucket)
    with watch:
        await store.put(OBJECT, zeros(mib))
    await js.delete_object_store(bucket)
    await nc.close()


async def get_object(url: str, _: str, mib: int, watch: Watch) -> None:
    async with jetspark.connect(url) as nc:
        store = await nc.jetstream(timeout=60).object_store(FULL)
        size = 0
        with watch:
            async with await store.open(OBJECT) as reader:
                async for chunk in reader:
                    size += len(chunk)
    check(size, mib * MIB)


async def get_object_nats_py(url: str, _: str, mib: int, watch: Watch) -> None:
    import nats

    nc = await nats.connect(url)
    store = await nc.jetstream(timeout=60).object_store(FULL)
    target = _Counter()
    with watch:
        await store.get(OBJECT, writeinto=target)
    check(target.size, mib * MIB)
    await nc.close()


@dataclasses.dataclass(frozen=True)
class _InProcess:
    """Does the work in a new process, so that its memory is not that of others."""

    work: Work
    uvloop: bool = False

    def __call__(self, bed: Bed, count: int) -> Sample:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(self.measure, bed.url, next(bed.names), count, bed.server).result()

    def measure(self, url: str, bucket: str, mib: int, server: int | None) -> Sample:
        watch = Watch(server)
        with asyncio.Runner(loop_factory=uvloop_factory() if self.uvloop else None) as runner:
            runner.run(self.work(url, bucket, mib, watch))
        return watch.sample(mib, memory=watch.grown)


def _contenders(client: str, work: Work, needs: tuple[str, ...] = ()) -> list[Contender]:
    both = on_both_loops(Contender(client, _InProcess(work), client, needs=needs))
    return [dataclasses.replace(each, run=_InProcess(work, each.uvloop)) for each in both]


_NATS: Final = ("nats",)
_KEY_COLUMNS: Final = (
    Column("rate", "keys/s", "{:,.0f}"),
    Column("cpu", "client CPU, us/key", CPU.text),
    Column("server", "server CPU, us/key", SERVER_CPU.text),
)
_OBJECT_COLUMNS: Final = (
    Column("rate", "MiB/s", "{:,.0f}"),
    Column("cpu", "client CPU, us/MiB", "{:,.0f}"),
    Column("server", "server CPU, us/MiB", "{:,.0f}"),
    Column("memory", "client memory, MiB", "{:,.0f}"),
)

KV_PUT: Final = Measurement(
    name="kv-put",
    title="Key-value: putting keys",
    text="""
    Keys of a bucket on disk. `put` waits for each acknowledgement; `put_many` has many in flight, which
    nats-py cannot do. Each write of jetspark has an id, so that a retry is safe.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, put()", put, "jetspark")),
        Contender("jetspark, put_many()", put_many, "jetspark"),
        *on_both_loops(Contender("nats-py", put_nats_py, "nats-py", needs=_NATS)),
    ),
    count=10_000,
    quick=300,
    columns=_KEY_COLUMNS,
    peer="nats-py",
)
KV_GET: Final = Measurement(
    name="kv-get",
    title="Key-value: getting keys",
    text="""
    Keys of a bucket on disk, by direct get. `get` waits for each answer, `get_many` asks for a thousand at
    once.
    """,
    bed=bed_with_keys,
    contenders=(
        *on_both_loops(Contender("jetspark, get()", get, "jetspark")),
        Contender("jetspark, get_many()", get_many, "jetspark"),
        *on_both_loops(Contender("nats-py", get_nats_py, "nats-py", needs=_NATS)),
    ),
    count=10_000,
    quick=300,
    columns=_KEY_COLUMNS,
    peer="nats-py",
)
OBJECT_PUT: Final = Measurement(
    name="object-put",
    title="Object store: putting 1 GiB",
    text="""
    An object of 1 GiB in chunks of 128 KiB, from a file object, to a store on disk. jetspark has 8 MiB in
    flight; nats-py waits for the acknowledgement of each chunk. Memory is what the client's process took at
    most, less what it had before.
    """,
    bed=bed,
    contenders=(*_contenders("jetspark", put_object), *_contenders("nats-py", put_object_nats_py, _NATS)),
    count=1024,
    quick=8,
    rounds=3,
    columns=_OBJECT_COLUMNS,
    peer="nats-py",
)
OBJECT_GET: Final = Measurement(
    name="object-get",
    title="Object store: getting 1 GiB",
    text="""
    The same object, read chunk by chunk without keeping it. The digest is checked.
    """,
    bed=bed_with_object,
    contenders=(*_contenders("jetspark", get_object), *_contenders("nats-py", get_object_nats_py, _NATS)),
    count=1024,
    quick=8,
    rounds=3,
    columns=_OBJECT_COLUMNS,
    peer="nats-py",
)
