"""The options of a table in Spark's catalog: the metadata of its first column holds them.

Spark shows a Python source the options of a table once, when `CREATE TABLE` asks for the columns. Later it
passes only the options of the statement itself, as in `SELECT ... WITH (...)`, and the columns as the catalog
stores them, with their metadata. `tests/spark/test_sql.py` shows both.

The rows of an `INSERT` have the columns of its table, too, unless they already have the same names and types.
Then Spark leaves them as they are, with the metadata of the table that they were read from. Whole messages,
which have a sequence, are therefore refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from jetspark.errors import UsageError
from jetspark.spark.options import Use, option_use, parse_options
from jetspark.spark.schema import read_schema

__all__ = ["insert_options", "new_table_options", "read_options", "with_table_options"]

_KEY: Final = "jetspark.table"
#: Spark passes the options of a table with this prefix, and once more without, among its properties.
_PREFIX: Final = "option."
#: Readers of a table can see its options, and the schema of files that are written from it has them, too.
_SECRETS: Final = {"password": "passwordFile", "token": "tokenFile"}
#: Options that say what kind of rows a table has: they are never left out.
_KINDS: Final = ("consumer", "objectstore", "deadletters")
#: Options that name a server.
_SERVER: Final = ("servers", "context")


def new_table_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being created, or None. Raises `UsageError` for a secret."""
    if "provider" not in options:
        return None
    own = {key.removeprefix(_PREFIX): text for key, text in options.items() if key.startswith(_PREFIX)}
    for name, instead in _SECRETS.items():
        if name in own:
            raise UsageError(
                f"option {name} cannot be an option of a table: the catalog would show it to every reader",
                hint=f"Use the options {instead}, credentialsFile or context",
            )
    return own


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a new table, with its options."""
    first, *others = schema
    marked = StructField(first.name, first.dataType, first.nullable, {_KEY: dict(options)})
    return StructType([marked, *others])


def read_options(schema: StructType, given: Mapping[str, str], use: Use) -> dict[str, str]:
    """The options of a read: those of the table, if it is one, replaced by the given ones."""
    return _merged(_stored(schema) or {}, given, use)


def insert_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of an `INSERT` into a table; None for a write that names its own target.

    Raises `UsageError` if it may be either.
    """
    stored = _stored(schema)
    if stored is None or any(name in given for name in _SERVER):
        return None
    if schema.fieldNames() != read_schema(parse_options(stored)).fieldNames():
        return None  # Rows of a table that are written elsewhere.
    for name in given:
        if name == "subject" or option_use(name) not in (Use.WRITE, None):
            raise UsageError(
                f"option {name}, and rows with all columns of a table: it is not clear where they should go",
                hint="To insert into the table, remove the option; to write elsewhere, add option servers",
            )
    return _merged(stored, given, Use.WRITE)


def _merged(stored: Mapping[str, str], given: Mapping[str, str], use: Use) -> dict[str, str]:
    """A table is read and written with the same options. Those for another use are left out."""
    suitable = {
        name: text for name, text in stored.items() if use in (option_use(name) or use) or name in _KINDS
    }
    return suitable | {name.lower(): text for name, text in given.items()}


def _stored(schema: StructType) -> dict[str, str] | None:
    found = schema[0].metadata.get(_KEY) if len(schema) else None
    if not isinstance(found, dict):
        return None
    return {str(name): str(text) for name, text in found.items()}
