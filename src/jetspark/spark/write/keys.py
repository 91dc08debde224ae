"""The rows of a write into a key-value bucket, as the rows of a write into its stream. Pure.

| column      | type                 |                                                     |
|-------------|----------------------|-----------------------------------------------------|
| `key`       | `string`             | required                                            |
| `value`     | `string` or `binary` | required, unless all rows delete; null is empty     |
| `operation` | `string`             | `PUT` (also null), `DEL` or `PURGE`                 |
| `msg_id`    | `string`             | as in a write into a stream                         |

`revision` and `created`, the other columns of a read, are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from jetspark.errors import UsageError
from jetspark.jetstream.kv.names import check_key, key_prefix
from jetspark.spark.write.rows import Columns, check_types

__all__ = ["KEY_COLUMNS", "as_messages", "check_key_columns", "key_check"]

#: The columns that are written, each with its accepted types.
KEY_COLUMNS: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (StringType(),),
    "value": (StringType(), BinaryType()),
    "operation": (StringType(),),
    "msg_id": (StringType(),),
}
_IGNORED: Final = ("revision", "created")
_HEADERS: Final[dict[str | None, dict[str, str] | None]] = {
    None: None,
    "PUT": None,
    "DEL": {"KV-Operation": "DEL"},
    "PURGE": {"KV-Operation": "PURGE", "Nats-Rollup": "sub"},
}


def check_key_columns(schema: StructType) -> None:
    """Raise `UsageError` for a missing or unknown column, or one of the wrong type."""
    names = schema.fieldNames()
    if "key" not in names or not {"value", "operation"} & set(names):
        raise UsageError(
            f"a bucket needs the columns key and value; the columns are {', '.join(names) or 'none'}",
            hint="To delete keys, give a column operation with DEL or PURGE",
        )
    check_types(schema, KEY_COLUMNS, _IGNORED, hint="Move it into value, or drop it")


def key_check(bucket: str) -> Callable[[str | None], None]:
    """A function that raises `UsageError` for a subject that is not that of a key, or None."""
    start = len(key_prefix(bucket))

    def check(subject: str | None) -> None:
        if subject is None:
            raise UsageError("a key is null")
        check_key(subject[start:])

    return check


def as_messages(bucket: str, columns: Columns) -> Columns:
    """The columns of a write into the stream of a bucket. Raises `UsageError` for an unknown operation."""
    prefix = key_prefix(bucket)
    keys = columns["key"]
    messages: dict[str, Sequence[Any]] = {
        "subject": [None if key is None else prefix + key for key in keys],
        "data": columns.get("value") or [None] * len(keys),
    }
    if "operation" in columns:
        operations = columns["operation"]
        for operation in operations:
            if operation not in _HEADERS:
                raise UsageError(f"column operation must be PUT, DEL or PURGE, not {operation!r}")
        messages["headers"] = [_HEADERS[operation] for operation in operations]
        # A tombstone has no value: other clients would show it.
        messages["data"] = [
            None if _HEADERS[operation] else value
            for operation, value in zip(operations, messages["data"], strict=True)
        ]
    if "msg_id" in columns:
        messages["msg_id"] = columns["msg_id"]
    return messages
