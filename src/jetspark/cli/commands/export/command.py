"""`jetspark export`: a stream, or a part of it, as a file.

It reads the messages that the stream holds at the start, as a range of sequences
(`jetstream/read/ranges.py`): each message once and in order, across reconnects, without affecting other
consumers.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from jetspark.cli.args.parameters import (
    Force,
    choice_option,
    comma_separated,
    moment_option,
    option,
)
from jetspark.cli.args.units import show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.export.files import ExportFile, open_writer
from jetspark.cli.complete import StreamName
from jetspark.cli.ui.failure import Exit, Failure, require
from jetspark.core.paths import expanded
from jetspark.errors import DataLoss, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.lookup import first_at
from jetspark.jetstream.read.loss import OF_THE_WHOLE_STREAM
from jetspark.jetstream.read.ranges import Chunk, StreamRange, read_range, reads_direct, stream_info

app = single()


#: Formats by the suffix of a file.
_KINDS: Final = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", "": "jsonl"}


class _Bounds(NamedTuple):
    """Sequences [first, end) and times [since, until), None where not given."""

    first: int | None
    end: int | None
    since: datetime | None
    until: datetime | None


@command(
    app,
    "export",
    examples="""
    jetspark export ORDERS -o orders.parquet
    jetspark export ORDERS --since 1d --filter 'orders.eu.>' -o orders.jsonl
    jetspark export ORDERS --start-sequence 1000 --end-sequence 2000 | jq .data
    """,
)
async def export(
    run: Run,
    stream: StreamName,
    *,
    output: Annotated[
        Path | None,
        option("--output", "-o", metavar="FILE", help="Output file; JSON lines to stdout by default."),
    ] = None,
    kind: Annotated[
        str | None,
        choice_option(
            "--format", choices=("jsonl", "parquet"), help="File format; by default from the file name."
        ),
    ] = None,
    first: Annotated[
        int | None, option("--start-sequence", metavar="SEQUENCE", min=1, help="First sequence to export.")
    ] = None,
    end: Annotated[
        int | None, option("--end-sequence", metavar="SEQUENCE", min=1, help="Stop before this sequence.")
    ] = None,
    since: Annotated[
        datetime | None, moment_option("--since", help="Only messages stored since this time.")
    ] = None,
    until: Annotated[
        datetime | None, moment_option("--until", help="Only messages stored before this time.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        option("--filter", metavar="SUBJECT", help="Only matching subjects; repeatable, or with commas."),
    ] = None,
    force: Force = False,
) -> None:
    """Write the messages of a stream to a file, JSON lines or Parquet.

    It exports the messages stored at the start. The file appears when it is complete; Ctrl-C leaves no file.
    """
    if first is not None and since is not None:
        raise Failure("--start-sequence and --since exclude each other", code=Exit.USAGE)
    path = None if output is None or str(output) == "-" else expanded(output)
    chosen = kind or _kind_of(path)
    _check_file(run, path, chosen, force=force)
    number = size = 0
    async with run.jetstream() as js:
        info = await stream_info(js.api, stream)
        try:
            reads_direct(info.config)
        except UsageError as error:
            raise Failure(
                str(error.args[0]), f"Enable direct gets with `jetspark stream edit {stream} --allow-direct`"
            ) from None
        wanted = await _range(js, info, _Bounds(first, end, since, until))

        def lost(loss: DataLoss) -> None:
            if loss.cause in OF_THE_WHOLE_STREAM:
                raise loss
            run.out.warn(str(loss))

        with (
            _without_gc(),
            run.out.progress(f"Exporting {stream}", len(wanted)) as progress,
            open_writer(path, chosen, stream) as writer,
        ):
            began = time.perf_counter()
            reading = read_range(js.api, wanted, subjects=comma_separated(filters), on_loss=lost)
            async with aclosing(reading) as chunks:
                async for chunk in chunks:
                    await _write_in_thread(writer, chunk)
                    number += len(chunk)
                    size += sum(len(frame.data) for frame in chunk)
                    progress.advance(len(chunk))
        seconds = time.perf_counter() - began
    if path is None:
        return
    file_bytes = path.stat().st_size
    run.out.result(
        {
            "stream": stream,
            "file": str(path),
            "format": chosen,
            "messages": number,
            "bytes": size,
            "file_bytes": file_bytes,
            "seconds": round(seconds, 3),
        },
        f"Exported {show_count(number, 'message')} of {stream}, {show_bytes(size)}, to {path} "
        f"({show_bytes(file_bytes)}) in {seconds:.1f} s: {show_rate(number, seconds)} rows/s",
    )


async def _write_in_thread(writer: ExportFile, chunk: Chunk) -> None:
    """Write without blocking the event loop. When cancelled, wait first: the writer still uses the file."""
    writing = asyncio.ensure_future(asyncio.to_thread(writer.write, chunk))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable the garbage collector: millions of rows without cycles would cost it half of the run time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _kind_of(path: Path | None) -> str:
    """The format that a file name stands for. Raises `Failure` for a name that stands for another one."""
    suffix = ".jsonl" if path is None else path.suffix.lower()
    try:
        return _KINDS[suffix]
    except KeyError:
        raise Failure(
            f"{suffix} is not a format of export",
            "Name the file .jsonl or .parquet, or choose one of jsonl, parquet with --format",
            Exit.USAGE,
        ) from None


def _check_file(run: Run, path: Path | None, kind: str, *, force: bool) -> None:
    if kind == "parquet":
        if path is None:
            raise Failure("Parquet cannot go to stdout", "Give a file with --output", Exit.USAGE)
        require("pyarrow", "Parquet", "spark")
    if path is not None:
        if not path.parent.is_dir():
            raise Failure(f"directory {path.parent} does not exist", code=Exit.USAGE)
        if path.exists():
            if not path.is_file():
                raise Failure(f"{path} exists and is not a regular file", code=Exit.USAGE)
            run.out.confirm(f"Replace {path}?", force=force)


async def _range(js: JetStream, info: StreamInfo, bounds: _Bounds) -> StreamRange:
    """The range to read, limited to what the stream holds."""
    name, state = info.config.name, info.state
    first, end = max(state.first_seq, 1), state.last_seq + 1
    if bounds.since is not None:
        first = await first_at(js.api, name, state, bounds.since)
    if bounds.until is not None:
        end = await first_at(js.api, name, state, bounds.until)
    return StreamRange(
        stream=name,
        created=info.created,
        first_seq=max(first, bounds.first or 0),
        next_seq=min(end, bounds.end or end),
    )
