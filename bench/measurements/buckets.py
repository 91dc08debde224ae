"""Buckets: keys that are put and got, one after the other and many at once; an object that is put and got."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import jetspark
import jetspark.server
from bench.harness import CPU, Column, Contender, Measurement, Sample, Stopwatch, on_both_loops
from jetspark import KeyValueConfig, ObjectStoreConfig

BUCKET: Final = "bench"
MIB: Final = 1024 * 1024


class Bed:
    """A server; every run has a bucket of its own, in a file."""

    def __init__(self, server: jetspark.server.Server, size: int) -> None:
        self.url = server.url
        self.value = b"x" * size
        self._runs = 0

    def bucket(self) -> str:
        self._runs += 1
        return f"{BUCKET}{self._runs}"


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server:
        yield Bed(server, size)


# --- keys


async def keys(bed: Bed, count: int, *, reads: bool) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket=bed.bucket()))
        watch = Stopwatch()
        if not reads:
            with watch:
                for number in range(count):
                    await kv.put(f"key.{number}", bed.value)
        else:
            await kv.put_many({f"key.{number}": bed.value for number in range(count)})
            with watch:
                for number in range(count):
                    await kv.get(f"key.{number}")
        await js.delete_key_value(kv.bucket)
    return watch.sample(count)


async def many_keys(bed: Bed, count: int, *, reads: bool) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket=bed.bucket()))
        values = {f"key.{number}": bed.value for number in range(count)}
        watch = Stopwatch()
        if not reads:
            with watch:
                await kv.put_many(values)
        else:
            await kv.put_many(values)
            with watch:
                found = sum([1 async for _ in kv.get_many(values)])
            _check(found, count)
        await js.delete_key_value(kv.bucket)
    return watch.sample(count)


async def keys_nats_py(bed: Bed, count: int, *, reads: bool) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    js = nc.jetstream()
    bucket = bed.bucket()
    kv = await js.create_key_value(bucket=bucket)
    watch = Stopwatch()
    if reads:
        for number in range(count):
            await kv.put(f"key.{number}", bed.value)
        with watch:
            for number in range(count):
                await kv.get(f"key.{number}")
    else:
        with watch:
            for number in range(count):
                await kv.put(f"key.{number}", bed.value)
    await js.delete_key_value(bucket)
    await nc.close()
    return watch.sample(count)


def put_keys(run: Any) -> Any:
    async def put(bed: Bed, count: int) -> Sample:
        sample: Sample = await run(bed, count, reads=False)
        return sample

    return put


def get_keys(run: Any) -> Any:
    async def get(bed: Bed, count: int) -> Sample:
        sample: Sample = await run(bed, count, reads=True)
        return sample

    return get


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{found} instead of {expected}")


# --- objects


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


class _Counter(io.RawIOBase):
    """A file that only counts what is written."""

    def __init__(self) -> None:
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


async def put_object(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream(timeout=60)
        store = await js.create_object_store(ObjectStoreConfig(bucket=bed.bucket()))
        with Stopwatch() as watch:
            await store.put("object", io.BufferedReader(_Zeros(count * MIB)))
        await js.delete_object_store(store.bucket)
    return watch.sample(count)


async def get_object(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream(timeout=60)
        store = await js.create_object_store(ObjectStoreConfig(bucket=bed.bucket()))
        await store.put("object", io.BufferedReader(_Zeros(count * MIB)))
        with Stopwatch() as watch:
            async with await store.open("object") as reader:
                size = sum([len(chunk) async for chunk in reader])
        _check(size, count * MIB)
        await js.delete_object_store(store.bucket)
    return watch.sample(count)


async def put_object_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    js = nc.jetstream(timeout=60)
    bucket = bed.bucket()
    store = await js.create_object_store(bucket)
    with Stopwatch() as watch:
        await store.put("object", io.BufferedReader(_Zeros(count * MIB)))
    await js.delete_object_store(bucket)
    await nc.close()
    return watch.sample(count)


async def get_object_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    async with jetspark.connect(bed.url) as own:
        store = await own.jetstream().create_object_store(ObjectStoreConfig(bucket=bed.bucket()))
        await store.put("object", io.BufferedReader(_Zeros(count * MIB)))
    nc = await nats.connect(bed.url)
    js = nc.jetstream(timeout=60)
    target = _Counter()
    with Stopwatch() as watch:
        await (await js.object_store(store.bucket)).get("object", writeinto=target)
    _check(target.size, count * MIB)
    await js.delete_object_store(store.bucket)
    await nc.close()
    return watch.sample(count)


_NATS: Final = ("nats",)
_KEYS: Final = Column("rate", "keys/s", "{:,.0f}")
_CPU_KEY: Final = Column("cpu", "client CPU, us/key", CPU.text)
_MIB: Final = (Column("rate", "MiB/s", "{:,.0f}"), Column("cpu", "client CPU, us/MiB", "{:,.0f}"))

KV_PUT: Final = Measurement(
    name="kv-put",
    title="Key-value: putting keys",
    text="""
    Keys of a bucket on disk. `put` waits for each acknowledgement; `put_many` has many in flight, which
    nats-py cannot do. Each write of jetspark has an id, so that a retry is safe.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, put()", put_keys(keys), "jetspark")),
        Contender("jetspark, put_many()", put_keys(many_keys), "jetspark"),
        *on_both_loops(Contender("nats-py", put_keys(keys_nats_py), "nats-py", needs=_NATS)),
    ),
    count=10_000,
    quick=300,
    columns=(_KEYS, _CPU_KEY),
    peer="nats-py",
)
KV_GET: Final = Measurement(
    name="kv-get",
    title="Key-value: getting keys",
    text="""
    Keys of a bucket on disk, by direct get. `get` waits for each answer, `get_many` asks for a thousand at
    once.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, get()", get_keys(keys), "jetspark")),
        Contender("jetspark, get_many()", get_keys(many_keys), "jetspark"),
        *on_both_loops(Contender("nats-py", get_keys(keys_nats_py), "nats-py", needs=_NATS)),
    ),
    count=10_000,
    quick=300,
    columns=(_KEYS, _CPU_KEY),
    peer="nats-py",
)
OBJECT_PUT: Final = Measurement(
    name="object-put",
    title="Object store: putting 1 GiB",
    text="""
    An object of 1 GiB in chunks of 128 KiB, from a file object, to a store on disk. jetspark has 8 MiB in
    flight; nats-py waits for the acknowledgement of each chunk.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark", put_object, "jetspark")),
        *on_both_loops(Contender("nats-py", put_object_nats_py, "nats-py", needs=_NATS)),
    ),
    count=1024,
    quick=8,
    rounds=3,
    columns=_MIB,
    peer="nats-py",
)
OBJECT_GET: Final = Measurement(
    name="object-get",
    title="Object store: getting 1 GiB",
    text="""
    The same object, read chunk by chunk without keeping it; the digest is checked.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark", get_object, "jetspark")),
        *on_both_loops(Contender("nats-py", get_object_nats_py, "nats-py", needs=_NATS)),
    ),
    count=1024,
    quick=8,
    rounds=3,
    columns=_MIB,
    peer="nats-py",
)
