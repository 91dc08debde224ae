"""Rows on their way out: what the columns must be, and the messages that rows become. Pure.

| column    | type                                        |                                             |
|-----------|---------------------------------------------|---------------------------------------------|
| `data`    | `string` or `binary`                        | required; null is published as an empty one |
| `subject` | `string`                                    | else the option `subject`                   |
| `headers` | `map<string, string>` or `map<string, array<string>>` | may be null                       |
| `msg_id`  | `string`                                    | null, or none: one is made of the row's place |

The other columns of a read (`stream`, `sequence`, `timestamp`) are left out, so that what was read can be
written as it is; any further column is refused, because it would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from jetspark.core.headers import block_pieces, extend_block, header_block
from jetspark.errors import UsageError
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.jetstream.publish.headers import MSG_ID, check_msg_id
from jetspark.wire.subjects import check_subject

__all__ = ["Columns", "RowEncoder", "check_columns"]

#: The values of some rows, by column.
Columns = Mapping[str, Sequence[Any]]

_TEXT: Final = StringType()
_ACCEPTED: Final[dict[str, tuple[DataType, ...]]] = {
    "data": (_TEXT, BinaryType()),
    "subject": (_TEXT,),
    "headers": (MapType(_TEXT, _TEXT), MapType(_TEXT, ArrayType(_TEXT))),
    "msg_id": (_TEXT,),
}
#: Headers that told the stream how to store a message that was read: this is another one.
_OF_THE_ORIGINAL: Final = ("nats-msg-id", "nats-batch-", "nats-expected-")
_LEFT_OUT: Final = ("stream", "sequence", "timestamp")


def check_columns(schema: StructType, *, subject: str | None) -> None:
    """Raise `UsageError` for columns that are missing, of the wrong type, or too many."""
    names = schema.fieldNames()
    if "data" not in names:
        raise UsageError(
            f"column data is missing among {', '.join(names) or 'no columns'}",
            hint="Give the payload this name, such as to_json(struct(*)).alias('data')",
        )
    if "subject" not in names and subject is None:
        raise UsageError("no column subject and no option subject", hint="Give one of them")
    for field in schema:
        if field.name in _LEFT_OUT:
            continue
        accepted = _ACCEPTED.get(field.name)
        if accepted is None:
            raise UsageError(
                f"column {field.name} is none of {', '.join(_ACCEPTED)}, and would be lost",
                hint="Put it into data or headers, or leave it out with select or drop",
            )
        if not any(_same_kind(field.dataType, kind) for kind in accepted):
            kinds = " or ".join(kind.simpleString() for kind in accepted)
            raise UsageError(f"column {field.name} must be {kinds}, not {field.dataType.simpleString()}")


def _same_kind(given: DataType, accepted: DataType) -> bool:
    """Whether a type is accepted, whatever it says about nulls, collations and lengths."""
    if isinstance(accepted, MapType):
        return (
            isinstance(given, MapType)
            and _same_kind(given.keyType, accepted.keyType)
            and _same_kind(given.valueType, accepted.valueType)
        )
    if isinstance(accepted, ArrayType):
        return isinstance(given, ArrayType) and _same_kind(given.elementType, accepted.elementType)
    return isinstance(given, type(accepted))


class RowEncoder:
    """Turns the rows of one task into messages, and counts them."""

    def __init__(
        self, *, subject: str | None, id_prefix: str, stream: str | None, place: str, max_size: int
    ) -> None:
        self._subject = subject
        #: Bytes of headers and payload that the server takes.
        self._max_size = max_size
        self._id_prefix = id_prefix
        self._place = place
        expected = {"Nats-Expected-Stream": stream} if stream else {}
        self._expected = expected
        # Most rows have a generated id and no headers: their blocks differ in one number.
        self._block_start, self._block_end = block_pieces({MSG_ID: id_prefix, **expected}, MSG_ID)
        #: How many rows it was given.
        self.rows = 0

    def messages(self, columns: Columns) -> Iterator[Outgoing]:
        """The messages of some rows. Raises `UsageError` that names the column and the row."""
        data = columns["data"]
        subjects: Iterable[Any] = columns.get("subject") or [self._subject] * len(data)
        headers: Iterable[Any] = columns.get("headers") or [None] * len(data)
        ids: Iterable[Any] = columns.get("msg_id") or [None] * len(data)
        for subject, payload, fields, given_id in zip(subjects, data, headers, ids, strict=True):
            self.rows += 1
            msg_id = f"{self._id_prefix}{self.rows}" if given_id is None else given_id
            if given_id is None:
                block = b"%b%d%b" % (self._block_start, self.rows, self._block_end)
            else:
                block = self._block(given_id)
            if fields:
                block = self._with_headers(block, fields)
            try:
                check_subject(subject)
            except UsageError as error:
                raise self._bad("subject", "is null" if subject is None else str(error)) from None
            message = Outgoing(subject, msg_id, block, payload or b"")
            if len(block) + len(message.data) > self._max_size:
                raise self._too_large(len(block) + len(message.data))
            yield message

    def _block(self, msg_id: str) -> bytes:
        """The headers of a row that brings its own id."""
        try:
            return header_block({MSG_ID: check_msg_id("msg_id", msg_id), **self._expected})
        except UsageError as error:
            raise self._bad("msg_id", str(error)) from None

    def _with_headers(self, block: bytes, fields: Any) -> bytes:
        """A block and, after what is in it, the headers of a row."""
        given = {
            name: values
            for name, values in dict(fields).items()
            if not name.lower().startswith(_OF_THE_ORIGINAL)
        }
        if None in given.values():
            raise self._bad("headers", f"has no value for {next(n for n, v in given.items() if v is None)!r}")
        try:
            return extend_block(block, given)
        except UsageError as error:
            raise self._bad("headers", str(error)) from None

    def place(self, row: int) -> str:
        """Where a row is, for people."""
        return f"row {row} of {self._place}"

    def _too_large(self, size: int) -> UsageError:
        return UsageError(
            f"column data, {self.place(self.rows)}: "
            f"the message has {size} bytes with its headers, the server takes {self._max_size}",
            hint="Split it, or raise max_payload in the server's configuration",
        )

    def _bad(self, column: str, what: str) -> UsageError:
        return UsageError(f"column {column}, {self.place(self.rows)}: {what}")
