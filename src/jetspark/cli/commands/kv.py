"""`jetspark kv`: key-value buckets."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args import stdin
from jetspark.cli.args.parameters import (
    EndAfter,
    EndWhenIdle,
    Force,
    comma_separated,
    duration_option,
    metadata,
    option,
)
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import count, duration, limit, show_bytes, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.ui.escape import escape_payload
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.output import Output
from jetspark.jetstream.kv.config import KeyValueConfig
from jetspark.jetstream.kv.entry import KeyValueEntry
from jetspark.jetstream.kv.status import KeyValueStatus
from jetspark.jetstream.model.stream import Placement, StorageType, StreamSource

if TYPE_CHECKING:
    from jetspark.jetstream.kv.store import KeyValue

app = group("Key-value buckets: their keys, values, history and changes.")

Bucket: TypeAlias = Annotated[str, typer.Argument(metavar="BUCKET", help="Name of the bucket.")]
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

#: By field of `KeyValueConfig`, except `cluster` and `tags`.
OPTIONS: Final[Options] = {
    "history": setting(count, "--history", help="Revisions to keep of each key, 1 to 64 (1)."),
    "ttl": setting(duration, "--ttl", help="Maximum age of a value, like 7d; 0 is no limit."),
    "limit_marker_ttl": setting(
        duration, "--marker-ttl", help="How long a key that expired leaves a marker; allows --ttl of keys."
    ),
    "description": setting(str, "--description", metavar="TEXT", help="Description."),
    "storage": setting(str, "--storage", choices=StorageType, help="Where values are kept (file)."),
    "replicas": setting(count, "--replicas", help="Number of replicas, 1 to 5."),
    "max_value_size": setting(limit, "--max-value-size", help="Maximum size of a value; -1 is no limit."),
    "max_bytes": setting(limit, "--max-bucket-size", help="Maximum size of the bucket; -1 is no limit."),
    "compression": setting(bool, "--compress/--no-compress", help="Compress values on disk."),
    "direct": setting(bool, "--direct/--no-direct", help="Let every replica answer reads (yes)."),
    "mirror": setting(str, "--mirror", metavar="BUCKET", help="Mirror this bucket."),
    "sources": setting(
        list[str], "--source", metavar="BUCKET", help="Copy the keys of this bucket; repeatable."
    ),
    "cluster": setting(str, "--cluster", metavar="NAME", help="Place the bucket in this cluster."),
    "tags": setting(list[str], "--tag", metavar="TAG", help="Place it on servers with this tag; repeatable."),
    "metadata": setting(list[str], "--metadata", metavar="NAME=VALUE", help="Repeatable NAME=VALUE pairs."),
}


@command(
    app,
    "add",
    options=OPTIONS,
    examples="""
    jetspark kv add prices --history 5
    jetspark kv add sessions --marker-ttl 1m --replicas 3
    """,
)
async def add(run: Run, bucket: Bucket, given: dict[str, Any]) -> None:
    """Create a bucket."""
    async with run.jetstream() as js:
        status = await (await js.create_key_value(_config(bucket, given))).status()
    _show_status(run.out, status, f"Bucket {bucket}")


@command(app, "edit", options=OPTIONS, examples="jetspark kv edit prices --history 10")
async def edit(run: Run, bucket: Bucket, given: dict[str, Any]) -> None:
    """Change a bucket. Other settings stay the same."""
    async with run.jetstream() as js:
        status = await (await js.key_value(bucket)).status()
        kept = _given(status) | {name: value for name, value in given.items() if value not in (None, [])}
        status = await (await js.update_key_value(_config(bucket, kept))).status()
    _show_status(run.out, status, f"Bucket {bucket} was changed")


@command(
    app,
    "ls",
    examples="""
    jetspark kv ls
    jetspark kv ls prices
    jetspark kv ls prices 'eur.>' --json
    """,
)
async def ls(
    run: Run,
    bucket: Annotated[
        str | None, typer.Argument(metavar="BUCKET", help="List its keys.", show_default=False)
    ] = None,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="Only matching keys.", show_default=False)
    ] = None,
) -> None:
    """List buckets, or the keys of one."""
    async with run.jetstream() as js:
        if bucket is not None:
            kv = await js.key_value(bucket)
            if run.out.json:
                run.out.value([key async for key in kv.keys(keys or ">")])
            else:
                async for key in kv.keys(keys or ">"):
                    run.out.text(key)
            return
        found = sorted([each async for each in js.key_values()], key=lambda each: each.bucket)
    if run.out.json:
        run.out.value([_status_json(each) for each in found])
        return
    run.out.table(
        ("Bucket", "Description", "Values", "Size", "History", "Last update"),
        (
            (
                each.bucket,
                each.description or "",
                show_count(each.values),
                show_bytes(each.bytes),
                each.history,
                show_time(each.stream_info.state.last_ts),
            )
            for each in found
        ),
        empty="No buckets. Create one with `jetspark kv add`",
    )


@command(app, "info", examples="jetspark kv info prices")
async def info(run: Run, bucket: Bucket) -> None:
    """Show the settings and state of a bucket."""
    async with run.jetstream() as js:
        status = await (await js.key_value(bucket)).status()
    _show_status(run.out, status, f"Bucket {bucket}")


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
    """Set a key that has no value."""
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
    """Set a key that is at a revision; 0 stands for a key without any."""
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
        int, typer.Argument(metavar="REVISION", min=1, help="Where its value is taken from.")
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
        str | None, typer.Argument(metavar="KEY", help="The key; else the bucket.", show_default=False)
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
    if run.out.json:
        run.out.value([_entry_json(entry) for entry in entries])
        return
    run.out.table(
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
        seen = 0
        while seen != number and (entry := await changes.next(wait)) is not None:
            seen += 1
            if run.out.json:
                run.out.record(_entry_json(entry))
            else:
                about = "" if entry.deleted else f": {_short(entry.value)}"
                when = show_time(entry.created)
                run.out.text(f"[{when}] {entry.operation.value} {entry.key} ({entry.revision}){about}")


@command(app, "compact", examples="jetspark kv compact prices --age 1h")
async def compact(
    run: Run,
    bucket: Bucket,
    age: Annotated[
        float | None, duration_option("--age", help="Keep tombstones younger than this (30m).")
    ] = None,
) -> None:
    """Remove the history and the tombstones of deleted keys."""
    async with run.jetstream() as js:
        kv = await js.key_value(bucket)
        removed = await kv.purge_deletes(older_than=1800.0 if age is None else age)
    run.out.result(
        {"bucket": bucket, "removed": removed}, f"Removed {show_count(removed)} revisions of deleted keys"
    )


async def _write(run: Run, bucket: str, key: str, write: Callable[[KeyValue], Any]) -> None:
    async with run.jetstream() as js:
        revision = await write(await js.key_value(bucket))
    run.out.result({"bucket": bucket, "key": key, "revision": revision}, revision)


async def _data(value: str | None) -> bytes:
    return await stdin.whole() if value in (None, "-") else str(value).encode("utf-8", "surrogateescape")


def _config(bucket: str, given: dict[str, Any]) -> KeyValueConfig:
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if "mirror" in found and isinstance(found["mirror"], str):
        found["mirror"] = StreamSource(name=found["mirror"])
    if "sources" in found:
        found["sources"] = [
            each if isinstance(each, StreamSource) else StreamSource(name=each) for each in found["sources"]
        ]
    if isinstance(found.get("metadata"), list):
        found["metadata"] = metadata(found["metadata"])
    cluster, tags = found.pop("cluster", None), comma_separated(found.pop("tags", None))
    if cluster or tags:
        found["placement"] = Placement(cluster=cluster, tags=tags)
    return KeyValueConfig(bucket=bucket, **found)


def _given(status: KeyValueStatus) -> dict[str, Any]:
    """The settings of a bucket, as `_config` takes them."""
    config = status.stream_info.config
    return {
        "history": status.history,
        "ttl": status.ttl,
        "limit_marker_ttl": status.limit_marker_ttl,
        "description": config.description,
        "storage": config.storage,
        "replicas": config.num_replicas,
        "max_value_size": config.max_msg_size,
        "max_bytes": config.max_bytes,
        "compression": status.compressed,
        "direct": config.allow_direct,
        "mirror": config.mirror,
        "sources": config.sources,
        "placement": config.placement,
        "republish": config.republish,
        "metadata": {name: value for name, value in config.metadata.items() if not name.startswith("_nats.")},
    }


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


def _status_json(status: KeyValueStatus) -> dict[str, Any]:
    names = (
        "bucket",
        "description",
        "values",
        "bytes",
        "history",
        "ttl",
        "limit_marker_ttl",
        "last_revision",
    )
    more = ("storage", "replicas", "compressed", "metadata")
    return {name: to_json(getattr(status, name)) for name in (*names, *more)}


def _show_status(out: Output, status: KeyValueStatus, heading: str) -> None:
    if out.json:
        out.value(_status_json(status))
        return
    config = status.stream_info.config
    out.heading(heading)
    out.text()
    out.details(
        (
            ("Description", status.description),
            ("Values", show_count(status.values)),
            ("Size", show_bytes(status.bytes)),
            ("Last revision", show_count(status.last_revision)),
            ("History", status.history),
            ("Maximum age", show_duration(status.ttl) if status.ttl else "unlimited"),
            ("Marker age", show_duration(status.limit_marker_ttl) if status.limit_marker_ttl else None),
            ("Maximum size", show_bytes(limit_) if (limit_ := config.max_bytes or 0) > 0 else "unlimited"),
            ("Storage", status.storage),
            ("Replicas", status.replicas),
            ("Compressed", status.compressed),
            ("Mirror of", config.mirror and config.mirror.name.removeprefix("KV_")),
            ("Sources", ", ".join(each.name.removeprefix("KV_") for each in config.sources) or None),
        )
    )
