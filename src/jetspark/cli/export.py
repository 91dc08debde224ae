"""`jetspark export`: a stream, or a part of it, as a file.

It reads what the stream holds when it begins, with an ordered consumer and large pulls. On work-queue and
interest streams, where a consumer would change what the stream keeps, it reads by batches of direct gets.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from jetspark.cli.command import Run, command, single
from jetspark.cli.export_files import Row, Writer, open_writer, row
from jetspark.cli.failure import Exit, Failure
from jetspark.cli.parameters import Force, StreamName, checked, one_of, option, words
from jetspark.cli.units import moment, show_bytes, show_count, show_rate
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.ordered import OrderedConsumer
from jetspark.jetstream.stream import Stream
from jetspark.jetstream.stream_config import RetentionPolicy
from jetspark.wire.subjects import subject_matches

app = single()

#: What a pull keeps under way, and what is written at a time.
_PULL_BYTES: Final = 16 * 1024 * 1024
_ROWS: Final = 50_000
_ROW_BYTES: Final = 32 * 1024 * 1024
#: Seconds of silence after which it is asked whether anything is still to come: a purge is silent.
_SILENCE: Final = 2.0


class _Range(NamedTuple):
    """What to read: sequences [first, end) and times [since, until), of subjects that match."""

    first: int | None
    end: int
    since: datetime | None
    until: datetime | None
    subjects: list[str]

    def ends_before(self, each: Row) -> bool:
        """Whether a row, and so all that follow, is beyond."""
        return each.sequence >= self.end or (
            self.until is not None and each.microseconds >= self.until.timestamp() * 1_000_000
        )


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
        found = await js.get_stream(stream)
        last = found.cached_info.state.last_seq
        wanted = _Range(first, min(end or last + 1, last + 1), since, until, words(filters))
        limits = found.config.retention == RetentionPolicy.LIMITS
        with (
            _uncollected(),
            run.out.progress(f"Exporting {stream}", found.cached_info.state.messages) as progress,
            open_writer(path, chosen) as writer,
        ):
            began = time.perf_counter()
            reading = _consumed(js, stream, wanted) if limits else _looked_up(found, wanted)
            async with aclosing(_gathered(reading)) as batches:
                async for rows in batches:
                    await _in_a_thread(writer, rows)
                    number += len(rows)
                    size += sum(len(each.data) for each in rows)
                    progress.advance(len(rows))
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


async def _in_a_thread(writer: Writer, rows: list[Row]) -> None:
    """Write while the connection goes on. Who is cancelled waits: no file is closed under its writer."""
    writing = asyncio.ensure_future(asyncio.to_thread(writer.write, rows))
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


async def _consumed(js: JetStream, stream: str, wanted: _Range) -> AsyncGenerator[list[Row], None]:
    """By an ordered consumer: whatever happens on the way, every message once and in order."""
    if wanted.end <= (wanted.first or 1):
        return
    reader = await js.ordered_consumer(
        stream,
        filter_subjects=wanted.subjects,
        opt_start_seq=wanted.first,
        opt_start_time=wanted.since,
    )
    # A pull must have room for the largest message.
    pull = max(_PULL_BYTES, 2 * js.connection.max_payload)
    async with reader.messages(max_bytes=pull) as messages:
        if reader.cached_info is not None and reader.cached_info.num_pending == 0:
            return
        while True:
            batch = await messages.take(_SILENCE)
            rows = [row(message) for message in batch]
            if rows and wanted.ends_before(rows[-1]):
                yield [each for each in rows if not wanted.ends_before(each)]
                return
            if rows:
                yield rows
                if batch[-1].metadata.num_pending == 0:
                    return
            elif await _nothing_left(js, reader):
                return


async def _nothing_left(js: JetStream, reader: OrderedConsumer) -> bool:
    """Whether the stream lost what was still to come, by a purge or its limits."""
    info = (await js.get_stream(reader.stream_name)).cached_info
    if info.state.last_seq <= reader.last_sequence or not info.state.messages:
        return True
    behind = reader.cached_info
    return behind is not None and (await js.consumer_info(reader.stream_name, behind.name)).num_pending == 0


async def _looked_up(stream: Stream, wanted: _Range) -> AsyncGenerator[list[Row], None]:
    """By direct gets, which change nothing."""
    if wanted.end <= (wanted.first or 1):
        return
    if not stream.config.allow_direct:
        raise Failure(
            f"{stream.name} is a {stream.config.retention} stream, and can only be read by direct gets",
            f"Allow them with `jetspark stream edit {stream.name} --allow-direct`",
        )
    subject = wanted.subjects[0] if len(wanted.subjects) == 1 else None
    rows: list[Row] = []
    messages = stream.get_messages(wanted.first, start_time=wanted.since, subject=subject)
    async for message in messages:
        each = row(message)
        if wanted.ends_before(each):
            break
        if len(wanted.subjects) < 2 or any(subject_matches(f, each.subject) for f in wanted.subjects):
            rows.append(each)
        if len(rows) >= 1000:
            yield rows
            rows = []
    yield rows


async def _gathered(reading: AsyncGenerator[list[Row], None]) -> AsyncGenerator[list[Row], None]:
    """As many rows at a time as are worth writing."""
    gathered: list[Row] = []
    size = 0
    async with aclosing(reading):
        async for rows in reading:
            gathered += rows
            size += sum(len(each.data) for each in rows)
            if len(gathered) >= _ROWS or size >= _ROW_BYTES:
                yield gathered
                gathered, size = [], 0
    if gathered:
        yield gathered
