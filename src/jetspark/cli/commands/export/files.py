"""The files of an export, JSON lines or Parquet, written under a temporary name until they are complete.

The columns of Parquet are those of the Spark source (`arrow.py`), the fields of JSON those of `--json`.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from jetspark.cli.ui.escape import escape_json
from jetspark.cli.ui.json import stored_json
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.stored import StoredMessage, from_frame
from jetspark.jetstream.read.ranges import Chunk
from jetspark.wire import MsgFrame
from jetspark.wire.headers import NO_HEADERS, Headers

__all__ = ["ExportFile", "open_writer"]

_COMPRESSION: Final = "zstd"
#: The minimum of a Parquet row group, except the last.
_GROUP_ROWS: Final = 100_000
_GROUP_BYTES: Final = 64 * 1024 * 1024


class ExportFile(Protocol):
    """Writes messages. Called in a thread, one call at a time."""

    def write(self, chunk: Chunk) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_writer(path: Path | None, kind: str, stream: str) -> Iterator[ExportFile]:
    """A writer to stdout, or to `path`: the file appears when the context ends without an error."""
    if path is None:
        yield _JsonLines(sys.stdout.buffer, for_a_terminal=sys.stdout.isatty())
        sys.stdout.buffer.flush()
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("wb") as file:
            writer: ExportFile = _Parquet(file, stream) if kind == "parquet" else _JsonLines(file)
            try:
                yield writer
            finally:
                writer.close()  # after an error, too: pyarrow would close it later, and warn
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


class _JsonLines:
    def __init__(self, file: BinaryIO, *, for_a_terminal: bool = False) -> None:
        self._file = file
        self._for_a_terminal = for_a_terminal

    def write(self, chunk: Chunk) -> None:
        messages = [_message(frame) for frame in chunk]
        try:
            lines = b"\n".join([msgspec.json.encode(stored_json(each)) for each in messages]) + b"\n"
        except UnicodeEncodeError:
            lines = (
                b"\n".join([msgspec.json.encode(stored_json(_valid_utf8(each))) for each in messages]) + b"\n"
            )
        self._file.write(escape_json(lines.decode()).encode() if self._for_a_terminal else lines)

    def close(self) -> None:
        pass


def _message(frame: MsgFrame) -> StoredMessage:
    """A message of a chunk, from a consumer (it has a reply) or from a direct get."""
    if not frame.reply:
        return from_frame(frame)
    metadata = parse_metadata(frame.reply)
    return StoredMessage(
        stream=metadata.stream,
        sequence=metadata.sequence.stream,
        subject=frame.subject.decode("utf-8", "surrogateescape"),
        data=frame.data,
        headers=Headers.parse(frame.header) if frame.header else NO_HEADERS,
        timestamp=metadata.timestamp,
    )


def _valid_utf8(each: StoredMessage) -> StoredMessage:
    headers = {_utf8(name): [_utf8(value) for value in values] for name, values in each.headers.multi_items()}
    return msgspec.structs.replace(each, subject=_utf8(each.subject), headers=Headers(headers))


def _utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Parquet:
    def __init__(self, file: BinaryIO, stream: str) -> None:
        self._pa = importlib.import_module("pyarrow")
        self._arrow = importlib.import_module("jetspark.arrow")
        parquet = importlib.import_module("pyarrow.parquet")
        self._stream = stream
        self._writer = parquet.ParquetWriter(file, self._arrow.SCHEMA, compression=_COMPRESSION)
        self._batches: list[Any] = []

    def write(self, chunk: Chunk) -> None:
        self._batches.append(self._arrow.record_batch(chunk, self._stream))
        rows = sum(batch.num_rows for batch in self._batches)
        if rows >= _GROUP_ROWS or sum(batch.nbytes for batch in self._batches) >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        if self._batches:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        table = self._pa.Table.from_batches(self._batches)
        self._batches = []
        self._writer.write_table(table, row_group_size=table.num_rows)
