"""`jetspark kv`: the commands for buckets."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from jetspark.cli.args.parameters import duration_option
from jetspark.cli.args.units import show_bytes, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.commands.kv.options import OPTIONS, config_of, options_of
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.output import Output
from jetspark.jetstream.kv.status import KeyValueStatus

__all__ = ["Bucket", "app"]

app = group("Key-value buckets: their keys, values, history and changes.")

Bucket: TypeAlias = Annotated[str, typer.Argument(metavar="BUCKET", help="Name of the bucket.")]


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
        status = await (await js.create_key_value(config_of(bucket, given))).status()
    _show_status(run.out, status, f"Bucket {bucket}")


@command(app, "edit", options=OPTIONS, examples="jetspark kv edit prices --history 10")
async def edit(run: Run, bucket: Bucket, given: dict[str, Any]) -> None:
    """Change a bucket. Other settings stay the same."""
    async with run.jetstream() as js:
        status = await (await js.key_value(bucket)).status()
        kept = options_of(status) | {name: value for name, value in given.items() if value not in (None, [])}
        status = await (await js.update_key_value(config_of(bucket, kept))).status()
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
    run.out.listing(
        [_status_json(each) for each in found],
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
    config = status.stream_info.config
    out.describe(
        _status_json(status),
        heading,
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
        ),
    )
