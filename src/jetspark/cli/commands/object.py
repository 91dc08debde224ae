"""`jetspark object`: object stores."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args import stdin
from jetspark.cli.args.buckets import bucket_options, chosen
from jetspark.cli.args.parameters import (
    EndAfter,
    EndWhenIdle,
    Force,
    duration_option,
    name_values,
    option,
    size_option,
)
from jetspark.cli.args.table import Options
from jetspark.cli.args.units import show_bytes, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.long_running import arrivals
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.output import Output, ProgressBar
from jetspark.core.paths import expanded
from jetspark.jetstream.objects.config import ObjectStoreConfig
from jetspark.jetstream.objects.info import CHUNK_SIZE, ObjectInfo, ObjectMeta
from jetspark.jetstream.objects.save import save
from jetspark.jetstream.objects.status import ObjectStoreStatus

app = group("Object stores: files and other data of any size.")

Bucket: TypeAlias = Annotated[str, typer.Argument(metavar="BUCKET", help="Name of the store.")]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="OBJECT", help="Name of the object.")]

OPTIONS: Final[Options] = bucket_options("store", "an object")


@command(app, "add", options=OPTIONS, examples="jetspark object add models --max-bucket-size 100GB")
async def add(run: Run, bucket: Bucket, given: dict[str, Any]) -> None:
    """Create a store."""
    config = ObjectStoreConfig(bucket=bucket, **chosen(given))
    async with run.jetstream() as js:
        status = await (await js.create_object_store(config)).status()
    _show_status(run.out, status, f"Object store {bucket}")


@command(
    app,
    "put",
    examples="""
    jetspark object put models model.bin
    jetspark object put models big.tar --name backups/today.tar
    tar c . | jetspark object put models --name source.tar
    """,
)
async def put(
    run: Run,
    bucket: Bucket,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The file; stdin by default.", show_default=False),
    ] = None,
    *,
    name: Annotated[
        str | None, option("--name", metavar="OBJECT", help="Name of the object (the file name).")
    ] = None,
    description: Annotated[str | None, option("--description", metavar="TEXT", help="Description.")] = None,
    header: Annotated[
        list[str] | None, option("--header", "-H", metavar="NAME:VALUE", help="A header; repeatable.")
    ] = None,
    chunk_size: Annotated[int | None, size_option("--chunk-size", help="Bytes in a chunk (128KB).")] = None,
) -> None:
    """Store a file, or stdin, as an object."""
    if file is None and name is None:
        raise Failure("missing --name", "stdin has no name: give one with --name", Exit.USAGE)
    meta = ObjectMeta(
        name=name if name is not None else str(file and file.name),
        description=description,
        headers=name_values(header, ":", "--header"),
        chunk_size=CHUNK_SIZE if chunk_size is None else chunk_size,
    )
    async with run.jetstream() as js:
        store = await js.object_store(bucket)
        if file is None:
            info = await store.put(meta, stdin.chunks())
        else:
            path = expanded(file)
            with run.out.progress(meta.name, path.stat().st_size) as bar, _ShownFile(path, bar) as source:
                info = await store.put(meta, source)
    _show_info(run.out, info, f"Stored {meta.name}")


@command(
    app,
    "get",
    examples="""
    jetspark object get models model.bin
    jetspark object get models model.bin --output /tmp/model.bin --force
    jetspark object get models source.tar --output - | tar x
    """,
)
async def get(
    run: Run,
    bucket: Bucket,
    name: Name,
    output: Annotated[
        str | None,
        option("--output", "-O", metavar="FILE", help="File to write (the object's name); - is stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> None:
    """Write an object to a file. The file appears when it is complete and its digest was checked."""
    # The client that stored the object chose its name: use only the last part, and never a hidden file.
    path = expanded(output) if output else Path(Path(name).name.lstrip(".") or "object")
    if output != "-" and path.exists() and not force:
        raise Failure(f"{path} exists", "Add --force to replace it, or give another --output", Exit.USAGE)
    async with run.jetstream() as js, await (await js.object_store(bucket)).open(name) as reader:
        if output == "-":
            async for chunk in reader:
                run.out.raw(chunk)
            return
        with run.out.progress(name, reader.info.size) as bar:
            await save(reader, path, bar.advance)
        found = reader.info
    run.out.result(
        {"file": str(path), **to_json(found)}, f"Wrote {show_bytes(found.size)} of {name} to {path}"
    )


@command(app, "ls", examples="jetspark object ls\njetspark object ls models --json")
async def ls(
    run: Run,
    bucket: Annotated[
        str | None, typer.Argument(metavar="BUCKET", help="List its objects.", show_default=False)
    ] = None,
) -> None:
    """List stores, or the objects of one."""
    async with run.jetstream() as js:
        if bucket is None:
            stores = sorted([each async for each in js.object_stores()], key=lambda each: each.bucket)
        else:
            infos = [each async for each in (await js.object_store(bucket)).list()]
    if bucket is None:
        _list_stores(run.out, stores)
    else:
        run.out.listing(
            to_json(infos),
            ("Name", "Size", "Modified", "Link"),
            ((each.name, show_bytes(each.size), show_time(each.modified), _link(each)) for each in infos),
            empty=f"No objects in {bucket}",
        )


@command(app, "info", examples="jetspark object info models\njetspark object info models model.bin")
async def info(
    run: Run,
    bucket: Bucket,
    name: Annotated[
        str | None, typer.Argument(metavar="OBJECT", help="Name of an object.", show_default=False)
    ] = None,
) -> None:
    """Show a store, or an object."""
    async with run.jetstream() as js:
        store = await js.object_store(bucket)
        if name is None:
            _show_status(run.out, await store.status(), f"Object store {bucket}")
        else:
            _show_info(run.out, await store.info(name), f"{bucket} > {name}")


@command(app, "del", examples="jetspark object del models model.bin\njetspark object del models --force")
async def delete(
    run: Run,
    bucket: Bucket,
    name: Annotated[
        str | None,
        typer.Argument(metavar="OBJECT", help="The object; without it, the store.", show_default=False),
    ] = None,
    force: Force = False,
) -> None:
    """Delete an object, or without OBJECT the whole store."""
    async with run.jetstream() as js:
        store = await js.object_store(bucket)
        if name is not None:
            found = await store.info(name)
            run.out.confirm(f"Delete {name} of {show_bytes(found.size)}?", force=force)
            await store.delete(name)
        else:
            status = await store.status()
            run.out.confirm(f"Delete store {bucket} with {show_bytes(status.size)}?", force=force)
            await js.delete_object_store(bucket)
    what = f"store {bucket}" if name is None else name
    run.out.result({"bucket": bucket, "name": name, "deleted": True}, f"Deleted {what}")


@command(app, "seal", examples="jetspark object seal models --force")
async def seal(run: Run, bucket: Bucket, force: Force = False) -> None:
    """Allow no further changes. This cannot be undone."""
    async with run.jetstream() as js:
        store = await js.object_store(bucket)
        run.out.confirm(f"Seal store {bucket} permanently?", force=force)
        status = await store.seal()
    _show_status(run.out, status, f"Object store {bucket} is sealed")


@command(app, "compact", examples="jetspark object compact models --age 1d")
async def compact(
    run: Run,
    bucket: Bucket,
    age: Annotated[float | None, duration_option("--age", help="Keep chunks younger than this (1h).")] = None,
) -> None:
    """Remove chunks without an object, which a killed process may leave."""
    async with run.jetstream() as js:
        store = await js.object_store(bucket)
        removed = await store.purge_orphans(older_than=3600.0 if age is None else age)
    run.out.result(
        {"bucket": bucket, "removed": removed}, f"Removed {show_count(removed)} chunks without an object"
    )


@command(app, "watch", examples="jetspark object watch models --json")
async def watch(
    run: Run,
    bucket: Bucket,
    updates_only: Annotated[bool, typer.Option("--updates-only", help="Begin with the next change.")] = False,
    number: EndAfter = None,
    wait: EndWhenIdle = None,
) -> None:
    """Show the objects of a store and each change, until Ctrl-C, --count or --wait."""
    async with (
        run.jetstream() as js,
        (await js.object_store(bucket)).watch(
            updates_only=updates_only, on_error=lambda error: run.out.warn(str(error))
        ) as changes,
    ):
        async for found in arrivals(changes, number, wait):
            what = "DEL" if found.deleted else "PUT"
            text = f"[{show_time(found.modified)}] {what} {found.name} {show_bytes(found.size)}"
            run.out.entry(to_json(found), text)


class _ShownFile(io.BufferedReader):
    """A file that shows how much of it was read. It is read again when the store's leader changes."""

    def __init__(self, path: Path, bar: ProgressBar) -> None:
        super().__init__(io.FileIO(path))
        self._bar = bar

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(size)
        self._bar.advance(len(block))
        return block

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        position = super().seek(offset, whence)
        self._bar.reach(position)
        return position


def _link(found: ObjectInfo) -> str:
    link = found.link
    return "" if link is None else f"{link.bucket} > {link.name or '*'}"


def _list_stores(out: Output, stores: list[ObjectStoreStatus]) -> None:
    out.listing(
        [_status_json(each) for each in stores],
        ("Store", "Description", "Size", "Sealed", "Last update"),
        (
            (
                each.bucket,
                each.description or "",
                show_bytes(each.size),
                each.sealed,
                show_time(each.stream_info.state.last_ts),
            )
            for each in stores
        ),
        empty="No object stores. Create one with `jetspark object add`",
    )


def _status_json(status: ObjectStoreStatus) -> dict[str, Any]:
    names = (
        "bucket",
        "description",
        "size",
        "ttl",
        "storage",
        "replicas",
        "sealed",
        "compressed",
        "metadata",
    )
    return {name: to_json(getattr(status, name)) for name in names}


def _show_status(out: Output, status: ObjectStoreStatus, heading: str) -> None:
    out.describe(
        _status_json(status),
        heading,
        (
            ("Description", status.description),
            ("Size", show_bytes(status.size)),
            ("Maximum age", show_duration(status.ttl) if status.ttl else "unlimited"),
            ("Storage", status.storage),
            ("Replicas", status.replicas),
            ("Sealed", status.sealed),
            ("Compressed", status.compressed),
        ),
    )


def _show_info(out: Output, found: ObjectInfo, heading: str) -> None:
    out.describe(
        to_json(found),
        heading,
        (
            ("Description", found.description),
            ("Size", show_bytes(found.size)),
            ("Chunks", found.chunks),
            ("Digest", found.digest or None),
            ("Modified", show_time(found.modified)),
            ("Link to", _link(found) or None),
        ),
    )
