"""The files of an export: JSON lines and Parquet, written under another name until they are whole.

`record_batch` is the one place that knows the columns, which are those of the Spark source.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import msgspec

from jetspark.cli.escape import in_json
from jetspark.cli.failure import Failure
from jetspark.cli.plain import data_fields, header_lists, plain
from jetspark.jetstream.message import JetStreamMsg
from jetspark.jetstream.stored import StoredMessage
from jetspark.wire.headers import Headers

__all__ = ["Row", "Writer", "open_writer", "record_batch", "row"]

_COMPRESSION: Final = "zstd"


class Row(NamedTuple):
    """A message on its way into a file."""

    subject: str
    data: bytes
    headers: Headers
    stream: str
    sequence: int
    #: Since 1970.
    microseconds: int


def row(message: JetStreamMsg | StoredMessage) -> Row:
    """The row of a message, however it was read."""
    if isinstance(message, StoredMessage):
        when = message.timestamp
        microseconds = int(when.timestamp()) * 1_000_000 + when.microsecond
        return Row(
            message.subject, message.data, message.headers, message.stream, message.sequence, microseconds
        )
    metadata = message.metadata
    return Row(
        message.subject,
        message.data,
        message.headers,
        metadata.stream,
        metadata.sequence.stream,
        metadata.timestamp_ns // 1000,
    )


class Writer(Protocol):
    """Takes rows. Used in a thread, one call at a time."""

    def write(self, rows: list[Row]) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_writer(path: Path | None, kind: str) -> Iterator[Writer]:
    """A writer to `path`, where the file appears when the context ends well; or to stdout."""
    if path is None:
        yield _JsonLines(sys.stdout.buffer, for_a_terminal=sys.stdout.isatty())
        sys.stdout.buffer.flush()
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("wb") as file:
            writer: Writer = _Parquet(file) if kind == "parquet" else _JsonLines(file)
            try:
                yield writer
            finally:
                writer.close()  # also of a file that is given up: pyarrow would do it later, and complain
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

    def write(self, rows: list[Row]) -> None:
        try:
            lines = b"\n".join([msgspec.json.encode(_fields(each)) for each in rows]) + b"\n"
        except UnicodeEncodeError:
            lines = b"\n".join([msgspec.json.encode(_fields(_readable(each))) for each in rows]) + b"\n"
        self._file.write(in_json(lines.decode()).encode() if self._for_a_terminal else lines)

    def close(self) -> None:
        pass


def _fields(each: Row) -> dict[str, Any]:
    return {
        "stream": each.stream,
        "sequence": each.sequence,
        "subject": each.subject,
        "timestamp": _rfc3339(each.microseconds),
        "headers": header_lists(each.headers),
        **data_fields(each.data),
    }


def _rfc3339(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return str(plain(datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)))


class _Parquet:
    def __init__(self, file: BinaryIO) -> None:
        parquet = importlib.import_module("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(file, schema(), compression=_COMPRESSION)

    def write(self, rows: list[Row]) -> None:
        self._writer.write_batch(record_batch(rows))

    def close(self) -> None:
        self._writer.close()


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise Failure("Parquet needs pyarrow", "Install it with `pip install 'jetspark[spark]'`") from None


def schema() -> Any:
    """The columns: those of `format("jetstream")` in Spark."""
    pa = _arrow()
    return pa.schema(
        [
            ("subject", pa.string()),
            ("data", pa.binary()),
            ("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
            ("stream", pa.string()),
            ("sequence", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
        ]
    )


def record_batch(rows: list[Row]) -> Any:
    """Rows as a `pyarrow.RecordBatch`. Subjects and headers that are no UTF-8 get replacement characters."""
    pa, columns = _arrow(), schema()
    try:
        return _batch(pa, columns, rows)
    except UnicodeEncodeError:
        return _batch(pa, columns, [_readable(each) for each in rows])


def _batch(pa: Any, columns: Any, rows: list[Row]) -> Any:
    subject, data, headers, stream, sequence, microseconds = zip(*rows, strict=True) if rows else ((),) * 6
    listed = [list(each.multi_items()) if each else [] for each in headers]
    arrays = (subject, data, listed, stream, sequence, microseconds)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(arrays, columns, strict=True)], schema=columns
    )


def _readable(each: Row) -> Row:
    return each._replace(
        subject=_utf8(each.subject),
        headers=Headers(
            {_utf8(name): [_utf8(value) for value in values] for name, values in each.headers.multi_items()}
        ),
    )


def _utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
