"""A bucket that is written and watched: every revision once, in order, and in the end its state."""

from __future__ import annotations

import asyncio

from chaos.stage import Stage
from jetspark import Connection, Error, KeyValue, KeyValueConfig, KeyValueEntry

__all__ = ["bucket"]

_KEYS = [f"k{number}" for number in range(30)]
#: Fewer revisions of a key than are kept: a watch that was interrupted must see each of them.
_MOST = len(_KEYS) * 60
_CATCH_UP = 60.0


async def bucket(stage: Stage) -> None:
    """Keys are put, created, updated and deleted at random, while another connection watches."""
    async with stage.connect() as nc, stage.connect() as other:
        config = KeyValueConfig(bucket=stage.name, history=64, replicas=stage.site.replicas)
        kv = await nc.jetstream(timeout=20).create_key_value(config)
        seen: list[KeyValueEntry] = []
        watching = asyncio.create_task(_watch(other, stage.name, seen))
        stage.ready()
        number = 0
        while not stage.calm and number < _MOST:
            number += 1
            async with stage.tolerance():
                await _change(kv, stage, number)
            await stage.rest(0.0, 0.02)
        while not stage.calm:
            await asyncio.sleep(0.02)
        try:
            await _judge(kv, stage, seen, watching)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        await stage.site.js.delete_key_value(stage.name)


async def _watch(nc: Connection, name: str, seen: list[KeyValueEntry]) -> None:
    kv = await nc.jetstream(timeout=20).key_value(name)
    async with kv.watch(include_history=True) as changes:
        while entries := await changes.take():
            seen += entries


async def _change(kv: KeyValue, stage: Stage, number: int) -> None:
    key = _KEYS[number % len(_KEYS)]
    if stage.random.random() < 0.2:
        await kv.delete(key)
    else:
        await kv.put(key, b"%d" % number)


async def _judge(kv: KeyValue, stage: Stage, seen: list[KeyValueEntry], watching: asyncio.Task[None]) -> None:
    stored: list[int] = []
    for key in _KEYS:
        while True:
            try:
                stored += [entry.revision for entry in await kv.history(key)]
                break
            except Error as error:
                stage.count(error)
    deadline = asyncio.get_running_loop().time() + _CATCH_UP
    while stored and (not seen or seen[-1].revision < max(stored)):
        if watching.done() or asyncio.get_running_loop().time() > deadline:
            stage.record.findings.append(f"hang: {stage.name}: the watch ended or stopped: {watching!r}")
            return
        await asyncio.sleep(0.02)
    revisions = [entry.revision for entry in seen]
    if revisions != sorted(set(revisions)):
        stage.record.findings.append(f"doubled or disordered: {stage.name}: {revisions}")
    if missing := set(stored) - set(revisions):
        stage.record.findings.append(f"lost: {stage.name}: the watch missed revisions {sorted(missing)}")
