"""`jetspark stream backup`, `restore` and `copy`: a stream as files, and a stream like another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jetspark.cli.args.units import show_bytes, show_count
from jetspark.cli.command import Run, command
from jetspark.cli.commands.stream.command import app, show_info
from jetspark.cli.commands.stream.options import OPTIONS, fields
from jetspark.cli.complete import StreamName
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.core.paths import expanded
from jetspark.jetstream.backup import backup_config, backup_size

_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the backup.")]


@command(
    app,
    "backup",
    examples="""
    jetspark stream backup ORDERS backups/orders
    jetspark stream backup ORDERS backups/orders --no-consumers --check
    """,
)
async def backup(
    run: Run,
    stream: StreamName,
    directory: _Directory,
    *,
    consumers: Annotated[bool, typer.Option("--consumers/--no-consumers", help="Include consumers.")] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Let the server check the stored messages first.")
    ] = False,
) -> None:
    """Write a stream to a directory, which `stream restore` and the nats CLI can read."""
    async with run.jetstream() as js:
        found = await js.get_stream(stream)
        with run.out.progress(f"Backup of {stream}", found.cached_info.state.bytes) as bar:
            state = await found.backup(
                expanded(directory), consumers=consumers, check=check, progress=bar.reach
            )
    run.out.result(
        {"stream": stream, "directory": str(directory), "state": to_json(state)},
        f"Wrote {show_count(state.messages)} messages of stream {stream} to {directory}",
    )


@command(
    app, "restore", examples="jetspark stream restore backups/orders\njetspark stream restore b --replicas 3"
)
async def restore(
    run: Run,
    directory: _Directory,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="NUMBER",
            min=1,
            max=5,
            help="Number of replicas, 1 to 5 (as in the backup).",
        ),
    ] = None,
) -> None:
    """Create a stream again from a backup. The stream must not exist."""
    source = expanded(directory)
    async with run.jetstream() as js:
        config = None
        if replicas is not None:
            config = backup_config(source).replace(num_replicas=replicas)
        with run.out.progress(f"Restore from {directory}", backup_size(source)) as bar:
            restored = await js.restore_stream(source, config=config, progress=bar.reach)
        info = await restored.info()
    state = info.state
    run.out.result(
        to_json(info),
        f"Restored stream {restored.name}: {show_count(state.messages)} messages, {show_bytes(state.bytes)}, "
        f"{state.consumer_count} consumers",
    )


@command(
    app,
    "copy",
    options={name: row for name, row in OPTIONS.items() if name != "mirror"},
    examples="""
    jetspark stream copy ORDERS ORDERS-TEST --subjects 'test.orders.>'
    jetspark stream copy ORDERS ARCHIVE --subjects 'archive.>' --storage file --max-age 0
    """,
)
async def copy(
    run: Run,
    stream: StreamName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new stream.")],
    given: dict[str, Any],
) -> None:
    """Create a stream with the configuration of another, changed by the options. Messages are not copied."""
    async with run.jetstream() as js:
        config = (await js.get_stream(stream)).config
        if not given.get("subjects") and config.subjects:
            raise Failure(
                f"two streams cannot store {', '.join(config.subjects)}",
                "Give the subjects of the new stream with --subjects",
                Exit.USAGE,
            )
        metadata = {name: value for name, value in config.metadata.items() if not name.startswith("_nats.")}
        created = await js.create_stream(config.replace(name=new, metadata=metadata, **fields(given)))
    show_info(run.out, created.cached_info, f"Stream {new} was created")
