"""The rows of a write: which columns are accepted, and how a row becomes a message. Pure.

| column    | type                                                  |                                        |
|-----------|-------------------------------------------------------|----------------------------------------|
| `data`    | `string` or `binary`                                  | required; null is an empty payload     |
| `subject` | `string`                                              | default: the option `subject`          |
| `headers` | `map<string, string>` or `map<string, array<string>>` | may be null                            |
| `msg_id`  | `string`                                              | default: built from the row's content  |

The other columns of a read (`stream`, `sequence`, `timestamp`, `num_delivered`) are ignored, so that a
DataFrame can be written as it was read. Any further column is refused, because its values would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from jetspark.core.headers import block_pieces, extend_block, header_block
from jetspark.errors import UsageError
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.jetstream.publish.headers import MSG_ID, check_msg_id, is_control_header, is_publish_header
from jetspark.spark.write.dead_letters import dead_letter
from jetspark.spark.write.ids import RowIds
from jetspark.wire.subjects import encode_subject

__all__ = ["COLUMNS", "Columns", "RowEncoder", "check_columns", "check_types"]

#: The values of rows, by column.
Columns = Mapping[str, Sequence[Any]]

_TEXT: Final = StringType()
#: The columns that are written, each with its accepted types.
COLUMNS: Final[dict[str, tuple[DataType, ...]]] = {
    "data": (_TEXT, BinaryType()),
    "subject": (_TEXT,),
    "headers": (MapType(_TEXT, _TEXT), MapType(_TEXT, ArrayType(_TEXT))),
    "msg_id": (_TEXT,),
}
_IGNORED: Final = ("stream", "sequence", "timestamp", "num_delivered")


def check_columns(schema: StructType, *, subject: str | None) -> None:
    """Raise `UsageError` for a missing or unknown column, or one of the wrong type."""
    names = schema.fieldNames()
    if "data" not in names:
        raise UsageError(
            f"missing column data; the columns are {', '.join(names) or 'none'}",
            hint="Name the payload column data, as in to_json(struct(*)).alias('data')",
        )
    if "subject" not in names and subject is None:
        raise UsageError("missing subject", hint="Add a column subject or the option subject")
    check_types(schema, COLUMNS, _IGNORED, hint="Move it into data or headers, or drop it")


def check_types(
    schema: StructType, columns: Mapping[str, Sequence[DataType]], ignored: Sequence[str], *, hint: str
) -> None:
    """Raise `UsageError` for an unknown column, with the hint, or for one of the wrong type."""
    for field in schema:
        if field.name in ignored:
            continue
        accepted = columns.get(field.name)
        if accepted is None:
            raise UsageError(
                f"unknown column {field.name}: its values would be lost; known are {', '.join(columns)}",
                hint=hint,
            )
        if not any(_same_kind(field.dataType, kind) for kind in accepted):
            kinds = " or ".join(kind.simpleString() for kind in accepted)
            raise UsageError(f"column {field.name} must be {kinds}, not {field.dataType.simpleString()}")


def _same_kind(given: DataType, accepted: DataType) -> bool:
    """Whether a type is accepted; nullability, collation and length do not matter."""
    if isinstance(accepted, MapType):
        return (
            isinstance(given, MapType)
            and _same_kind(given.keyType, accepted.keyType)
            and _same_kind(given.valueType, accepted.valueType)
        )
    if isinstance(accepted, ArrayType):
        return isinstance(given, ArrayType) and _same_kind(given.elementType, accepted.elementType)
    return isinstance(given, type(accepted))


def _is_dropped(name: str) -> bool:
    return is_control_header(name) or is_publish_header(name)


class RowEncoder:
    """Encodes the rows of one task as messages, and counts them.

    A row that cannot be sent becomes a message to `dead_letters`; without that subject, it is an error.
    """

    def __init__(
        self,
        *,
        subject: str | None,
        id_prefix: str,
        stream: str | None,
        place: str,
        max_size: int,
        keep_control_headers: bool = False,
        dead_letters: str | None = None,
        subject_column: str = "subject",
        check_subject: Callable[[str], object] = encode_subject,
        fills_subjects: bool = False,
    ) -> None:
        self._subject = subject
        #: Whether `subject` is also that of rows whose column is null.
        self._fills_subjects = fills_subjects
        #: The column that subjects are made of, and the function that raises `UsageError` for an invalid one.
        self._subject_column = subject_column
        self._check_subject = check_subject
        self._is_dropped = is_publish_header if keep_control_headers else _is_dropped
        self._dead_letters = dead_letters
        #: Bytes of headers and payload that the server accepts.
        self._max_size = max_size
        self._id_prefix = id_prefix
        self._ids = RowIds()
        self._place = place
        expected = {"Nats-Expected-Stream": stream} if stream else {}
        self._expected = expected
        # Most rows have a generated id and no headers: their blocks differ in the end of the id.
        self._block_start, self._block_end = block_pieces({MSG_ID: id_prefix, **expected}, MSG_ID)
        #: Rows encoded so far, and those of them that became dead letters.
        self.rows = 0
        self.dead = 0

    def messages(self, columns: Columns) -> Iterator[Outgoing]:
        """Encode rows. Without dead letters, raises `UsageError`, which names the column and the row."""
        data = columns["data"]
        subjects: Iterable[Any] = columns.get("subject") or [self._subject] * len(data)
        if self._fills_subjects and None in columns.get("subject", ()):
            subjects = [self._subject if each is None else each for each in subjects]
        headers: Iterable[Any] = columns.get("headers") or [None] * len(data)
        given_ids: Iterable[Any] = columns.get("msg_id") or [None] * len(data)
        check_subject = self._check_subject
        next_id, prefix, start, end = self._ids.next, self._id_prefix, self._block_start, self._block_end
        for subject, payload, fields, given_id in zip(subjects, data, headers, given_ids, strict=True):
            self.rows += 1
            row_id = next_id(subject, payload, fields) if given_id is None else ""
            msg_id = prefix + row_id if given_id is None else given_id
            try:
                block = b"%b%b%b" % (start, row_id.encode(), end) if row_id else self._block(msg_id)
                if fields:
                    block = self._with_headers(block, fields)
                try:
                    check_subject(subject)
                except UsageError as error:
                    reason = "is null" if subject is None else str(error)
                    raise self._invalid(self._subject_column, reason) from None
                message = Outgoing(subject, msg_id, block, payload or b"")
                if len(block) + len(message.data) > self._max_size:
                    raise self._too_large(len(block) + len(message.data))
            except UsageError as error:
                if self._dead_letters is None:
                    raise
                message = self._dead_letter((subject, payload, fields), msg_id, error)
            yield message

    def _dead_letter(self, row: tuple[Any, Any, Any], msg_id: str, error: UsageError) -> Outgoing:
        assert self._dead_letters is not None
        self.dead += 1
        return dead_letter(self._dead_letters, f"dead/{msg_id}", row, error, self._max_size)

    def _block(self, msg_id: str) -> bytes:
        """The header block of a row with a `msg_id`."""
        try:
            return header_block({MSG_ID: check_msg_id("msg_id", msg_id), **self._expected})
        except UsageError as error:
            raise self._invalid("msg_id", str(error)) from None

    def _with_headers(self, block: bytes, fields: Any) -> bytes:
        """A header block with the headers of a row appended."""
        given = {name: values for name, values in dict(fields).items() if not self._is_dropped(name)}
        if None in given.values():
            raise self._invalid(
                "headers", f"null value for {next(n for n, v in given.items() if v is None)!r}"
            )
        try:
            return extend_block(block, given)
        except UsageError as error:
            raise self._invalid("headers", str(error)) from None

    def place(self, row: int) -> str:
        """The position of a row, for messages."""
        return f"row {row} of {self._place}"

    def _too_large(self, size: int) -> UsageError:
        return UsageError(
            f"column data, {self.place(self.rows)}: "
            f"the message has {size} bytes with its headers, the server takes {self._max_size}",
            hint="Split it, or raise max_payload in the server's configuration",
        )

    def _invalid(self, column: str, reason: str) -> UsageError:
        return UsageError(f"column {column}, {self.place(self.rows)}: {reason}")
