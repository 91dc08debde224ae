"""`jetspark kv`: the commands for keys. `del` without a key deletes the bucket."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from jetspark.cli.args import stdin
from jetspark.cli.args.parameters import EndAfter, EndWhenIdle, Force, duration_option, option
from jetspark.cli.args.units import show_bytes, show_count, show_time
from jetspark.cli.command import Run, command
from jetspark.cli.commands.kv.command import Bucket, app
from jetspark.cli.long_running import arrivals
from jetspark.cli.ui.escape import escape_payload
from jetspark.cli.ui.json import to_json
from jetspark.jetstream.kv.entry import KeyValueEntry

if TYPE_CHECKING:
    from jetspark.jetstream.kv.store import KeyValue

__all__: list[str] = []

Key: TypeAlias = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
Value: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="VALUE", help="The value; stdin by default, or with -.", show_default=False),
]
Ttl: TypeAlias = Annotated[
    float | None, duration_option("--ttl", help="Let the key expire after this; needs --marker-ttl.")
]
Revision: TypeAlias = Annotated[
    int | None, option("--revision", metavar="NUMBER", min=1, help="Only if the key is at this revision.")
]


@command(
    app,
    "put",
    examples="""
    jetspark kv put prices eur.usd 1.10
    jetspark kv put config app.json < app.json
    jetspark kv put sessions alice x --ttl 1h
    """,
)
async def put(run: Run, bucket: Bucket, key: Key, value: Value = None, ttl: Ttl = None) -> None:
    """Set a key."""
    data = await _data(value)
    await _write(run, bucket, key, lambda kv: kv.put(key, data, ttl=ttl))


@command(app, "create", examples="jetspark kv create locks leader me --ttl 1m")
async def create(run: Run, bucket: Bucket, key: Key, value: Value = None, ttl: Ttl = None) -> None:
    """Set a key, only if it has no value."""
    data = await _data(value)
    await _write(run, bucket, key, lambda kv: kv.create(key, data, ttl=ttl))


@command(app, "update", examples="jetspark kv update prices eur.usd 1.11 --revision 17")
async def update(
    run: Run,
    bucket: Bucket,
    key: Key,
    value: Value = None,
    revision: Annotated[
        int, option("--revision", metavar="NUMBER", min=0, help="The revision that the key must have.")
    ] = 0,
) -> None:
    """Set a key, only if it is at --revision; 0 is for a key without a value."""
    data = await _data(value)
    await _write(run, bucket, key, lambda kv: kv.update(key, data, revision))


@command(
    app,
    "get",
    examples="""
    jetspark kv get prices eur.usd
    jetspark kv get config app.json --raw > app.json
    jetspark kv get prices eur.usd --revision 17 --json
    """,
)
async def get(
    run: Run,
    bucket: Bucket,
    key: Key,
    revision: Annotated[
        int | None, option("--revision", metavar="NUMBER", min=1, help="The value at this revision.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "-r", help="Print only the value; unchanged, except on a terminal.")
    ] = False,
) -> None:
    """Show the value of a key."""
    async with run.jetstream() as js:
        entry = await (await js.key_value(bucket)).get(key, revision=revision)
    if run.out.json:
        run.out.value(_entry_json(entry))
    elif raw:
        run.out.raw(entry.value)
    else:
        run.out.heading(f"{bucket} > {key}, revision {entry.revision}, created {show_time(entry.created)}")
        run.out.text()
        run.out.text(escape_payload(entry.value), safe=True)


@command(app, "revert", examples="jetspark kv revert prices eur.usd 17")
async def revert(
    run: Run,
    bucket: Bucket,
    key: Key,
    revision: Annotated[
        int, typer.Argument(metavar="REVISION", min=1, help="Revision whose value to restore.")
    ],
) -> None:
    """Set a key to the value that it had at a revision."""

    async def put_again(kv: KeyValue) -> int:
        return await kv.put(key, (await kv.get(key, revision=revision)).value)

    await _write(run, bucket, key, put_again)


@command(app, "del", examples="jetspark kv del prices eur.usd\njetspark kv del prices --force")
async def delete(
    run: Run,
    bucket: Bucket,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key; without it, the bucket.", show_default=False)
    ] = None,
    revision: Revision = None,
    force: Force = False,
) -> None:
    """Delete a key, or without KEY the whole bucket."""
    if key is not None:
        chosen = key
        await _write(run, bucket, key, lambda kv: kv.delete(chosen, revision=revision))
        return
    async with run.jetstream() as js:
        status = await (await js.key_value(bucket)).status()
        question = f"Delete bucket {bucket} with {show_count(status.values)} values?"
        run.out.confirm(question, force=force)
        await js.delete_key_value(bucket)
    run.out.result({"bucket": bucket, "deleted": True}, f"Deleted bucket {bucket}")


@command(app, "purge", examples="jetspark kv purge prices eur.usd")
async def purge(run: Run, bucket: Bucket, key: Key, revision: Revision = None, ttl: Ttl = None) -> None:
    """Delete a key and its history."""
    await _write(run, bucket, key, lambda kv: kv.purge(key, revision=revision, ttl=ttl))


@command(app, "history", examples="jetspark kv history prices eur.usd")
async def history(run: Run, bucket: Bucket, key: Key) -> None:
    """Show the revisions of a key."""
    async with run.jetstream() as js:
        entries = await (await js.key_value(bucket)).history(key)
    run.out.listing(
        [_entry_json(entry) for entry in entries],
        ("Revision", "Operation", "Created", "Size", "Value"),
        (
            (
                entry.revision,
                entry.operation.value,
                show_time(entry.created),
                show_bytes(len(entry.value)),
                _short(entry.value),
            )
            for entry in entries
        ),
        empty=f"No revisions of {key}",
    )


@command(
    app,
    "watch",
    examples="""
    jetspark kv watch prices
    jetspark kv watch prices 'eur.>' --updates-only --json
    """,
)
async def watch(
    run: Run,
    bucket: Bucket,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="Only matching keys.", show_default=False)
    ] = None,
    *,
    include_history: Annotated[bool, typer.Option("--history", help="Begin with all revisions.")] = False,
    updates_only: Annotated[bool, typer.Option("--updates-only", help="Begin with the next change.")] = False,
    from_revision: Annotated[
        int | None, option("--from-revision", metavar="NUMBER", min=1, help="Begin with this revision.")
    ] = None,
    number: EndAfter = None,
    wait: EndWhenIdle = None,
) -> None:
    """Show the values of a bucket and each change, until Ctrl-C, --count or --wait."""
    async with (
        run.jetstream() as js,
        (await js.key_value(bucket)).watch(
            keys or ">",
            include_history=include_history,
            updates_only=updates_only,
            from_revision=from_revision,
            on_error=lambda error: run.out.warn(str(error)),
        ) as changes,
    ):
        async for entry in arrivals(changes, number, wait):
            about = "" if entry.deleted else f": {_short(entry.value)}"
            when = show_time(entry.created)
            text = f"[{when}] {entry.operation.value} {entry.key} ({entry.revision}){about}"
            run.out.entry(_entry_json(entry), text)


async def _write(run: Run, bucket: str, key: str, write: Callable[[KeyValue], Any]) -> None:
    async with run.jetstream() as js:
        revision = await write(await js.key_value(bucket))
    run.out.result({"bucket": bucket, "key": key, "revision": revision}, revision)


async def _data(value: str | None) -> bytes:
    return await stdin.whole() if value in (None, "-") else str(value).encode("utf-8", "surrogateescape")


def _short(value: bytes) -> str:
    text = escape_payload(value[:200])
    return text if len(value) <= 200 else f"{text}..."


def _entry_json(entry: KeyValueEntry) -> dict[str, Any]:
    fields: dict[str, Any] = to_json(entry)
    del fields["delta"]
    try:
        return fields | {"value": entry.value.decode(), "value_base64": None}
    except UnicodeDecodeError:
        return fields | {"value": None, "value_base64": base64.b64encode(entry.value).decode()}
