"""`jetspark export`: a stream, or a part of it, as a file.

It reads what the stream holds when it begins, as a range of sequences (`jetstream/read/ranges.py`): each
message once and in order, whatever happens on the way, without disturbing other consumers.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

from jetspark.cli.args.parameters import Force, StreamName, checked, one_of, option, words
from jetspark.cli.args.units import moment, show_bytes, show_count, show_rate
from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.export_files import Writer, open_writer
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.errors import DataLoss, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.lookup import first_at
from jetspark.jetstream.read.loss import OF_THE_WHOLE_STREAM
from jetspark.jetstream.read.ranges import Chunk, StreamRange, read_range, reads_direct, stream_info

app = single()


class _Asked(NamedTuple):
    """Sequences [first, end) and times [since, until), as far as the user gave them."""

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
        option("--output", "-o", metavar="FILE", help="The file; without it, JSON lines to stdout."),
    ] = None,
    kind: Annotated[
        str | None,
        option(
            "--format",
            metavar="jsonl|parquet",
            parser=one_of("jsonl", "parquet"),
            help="By default what the file's name says.",
        ),
    ] = None,
    first: Annotated[
        int | None, option("--start-sequence", metavar="SEQUENCE", min=1, help="From here on.")
    ] = None,
    end: Annotated[
        int | None, option("--end-sequence", metavar="SEQUENCE", min=1, help="Up to, and without, this one.")
    ] = None,
    since: Annotated[
        datetime | None, option("--since", metavar="TIME", parser=checked(moment), help="From this time on.")
    ] = None,
    until: Annotated[
        datetime | None, option("--until", metavar="TIME", parser=checked(moment), help="Before this time.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        option("--filter", metavar="SUBJECT", help="Only what matches; several, or with commas."),
    ] = None,
    force: Force = False,
) -> None:
    """Write the messages of a stream to a file, JSON lines or Parquet.

    It reads what is there when it begins. The file appears when it is whole; Ctrl-C leaves nothing behind.
    """
    if first is not None and since is not None:
        raise Failure("--start-sequence and --since exclude each other", code=Exit.USAGE)
    path = None if output is None or str(output) == "-" else output.expanduser()
    chosen = kind or ("parquet" if path is not None and path.suffix == ".parquet" else "jsonl")
    _check_file(run, path, chosen, force=force)
    number = size = 0
    async with run.jetstream() as js:
        info = await stream_info(js.api, stream)
        try:
            reads_direct(info.config)
        except UsageError as error:
            raise Failure(
                str(error.args[0]), f"Allow them with `jetspark stream edit {stream} --allow-direct`"
            ) from None
        wanted = await _range(js, info, _Asked(first, end, since, until))

        def lost(loss: DataLoss) -> None:
            if loss.cause in OF_THE_WHOLE_STREAM:
                raise loss
            run.out.warn(str(loss))

        with (
            _uncollected(),
            run.out.progress(f"Exporting {stream}", len(wanted)) as progress,
            open_writer(path, chosen, stream) as writer,
        ):
            began = time.perf_counter()
            reading = read_range(js.api, wanted, subjects=words(filters), on_loss=lost)
            async with aclosing(reading) as chunks:
                async for chunk in chunks:
                    await _in_a_thread(writer, chunk)
                    number += len(chunk)
                    size += sum(len(frame.data) for frame in chunk)
                    progress.advance(len(chunk))
        seconds = time.perf_counter() - began
    if path is None:
        return
    if run.out.json:
        run.out.value(
            {
                "stream": stream,
                "file": str(path),
                "format": chosen,
                "messages": number,
                "bytes": size,
                "file_bytes": path.stat().st_size,
                "seconds": round(seconds, 3),
            }
        )
        return
    run.out.text(
        f"Exported {show_count(number)} messages of {stream}, {show_bytes(size)}, to {path} "
        f"({show_bytes(path.stat().st_size)}) in {seconds:.1f} s: {show_rate(number, seconds)} rows/s"
    )


async def _in_a_thread(writer: Writer, chunk: Chunk) -> None:
    """Write while the connection goes on. Who is cancelled waits: no file is closed under its writer."""
    writing = asyncio.ensure_future(asyncio.to_thread(writer.write, chunk))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


@contextmanager
def _uncollected() -> Iterator[None]:
    """Rows come by the million and are in no cycles; to look for some would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_file(run: Run, path: Path | None, kind: str, *, force: bool) -> None:
    if kind == "parquet":
        if path is None:
            raise Failure("Parquet cannot go to stdout", "Name a file with --output", Exit.USAGE)
        if importlib.util.find_spec("pyarrow") is None:
            raise Failure("Parquet needs pyarrow", "Install it with `pip install 'jetspark[spark]'`")
    if path is not None:
        if not path.parent.is_dir():
            raise Failure(f"there is no directory {path.parent}", code=Exit.USAGE)
        if path.exists():
            if not path.is_file():
                raise Failure(f"{path} is there, and is no file", code=Exit.USAGE)
            run.out.confirm(f"Replace {path}?", force=force)


async def _range(js: JetStream, info: StreamInfo, asked: _Asked) -> StreamRange:
    """What to read of what is there."""
    name, state = info.config.name, info.state
    first, end = max(state.first_seq, 1), state.last_seq + 1
    if asked.since is not None:
        first = await first_at(js.api, name, state, asked.since)
    if asked.until is not None:
        end = await first_at(js.api, name, state, asked.until)
    return StreamRange(
        stream=name,
        created=info.created,
        first_seq=max(first, asked.first or 0),
        next_seq=min(end, asked.end or end),
    )
