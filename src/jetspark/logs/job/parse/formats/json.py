"""The format `json`: objects, with fields inside of fields: `http.status` is in the object `http`.

Some loggers write keys with dots instead of objects: `{"http.status": 200}`. Such a key is found as well, and
counts first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias, Union

from jetspark.logs.job.parse.fields import FieldsFormat, column_of
from jetspark.logs.job.parse.match import is_list
from jetspark.logs.job.parse.times import iso_time
from jetspark.logs.job.sql import F, types
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["JsonFormat"]

#: Spark's column for lines that do not parse; no field has this name.
_CORRUPT: Final = "jetspark corrupt"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
}
_TYPES: Final = {
    "string": "StringType",
    "int": "IntegerType",
    "bigint": "LongType",
    "double": "DoubleType",
    "boolean": "BooleanType",
    "timestamp": "StringType",
}
#: The type of each field, and of the fields inside of it.
_Tree: TypeAlias = dict[str, Union[str, "_Tree"]]


class JsonFormat(FieldsFormat, frozen=True):
    """A missing field is null; a line must be one object."""

    def check(self, where: Where) -> None:
        super().check(where)
        tree: _Tree = {}
        for name, kind in self.fields.items():
            try:
                _add(tree, name.split("."), kind)
            except ValueError as error:
                raise where.error(("parse", "fields", name), str(error)) from None

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        # A list shows how many values Spark reads; only an object shows that it is corrupt.
        wrapped = F.concat(F.lit('{"lines":['), F.col("_line"), F.lit("]}"))
        made = frame.withColumn("_read", F.from_json(wrapped, self._schema(), _OPTIONS))
        made = made.withColumn("_json", F.get("_read.lines", 0))
        one = (F.size("_read.lines") == 1) & is_list(F.col("_line"), F.lit(1))
        is_object = F.coalesce(F.ltrim("_line").startswith("{") & one, F.lit(False))
        columns, wrong = {}, F.col("_read").getField(_CORRUPT).isNotNull()
        for name, kind in self.fields.items():
            given = _value(name)
            columns[column_of(name)] = iso_time(given) if kind == "timestamp" else given
            if kind == "timestamp":
                wrong = wrong | (given.isNotNull() & iso_time(given).isNull())
        reason = F.when(~is_object | F.col("_json").isNull(), F.lit("not a JSON object")).when(
            wrong, F.lit("fields or types differ from parse.fields")
        )
        return made.withColumns(columns), reason

    def _schema(self) -> types.StructType:
        tree: _Tree = {}
        for name, kind in self.fields.items():
            _add(tree, name.split("."), kind)
        flat = {name: kind for name, kind in self.fields.items() if "." in name}
        lines = types.ArrayType(_struct({**tree, **flat}))
        corrupt = types.StructField(_CORRUPT, types.StringType())
        return types.StructType([types.StructField("lines", lines), corrupt])


def _add(tree: _Tree, path: list[str], kind: str) -> None:
    """Put a field into its place. Raises ValueError if another one is there."""
    *outer, last = path
    for part in outer:
        below = tree.setdefault(_unambiguous(tree, part), {})
        if isinstance(below, str):
            raise ValueError(f"{part} is a field, and cannot contain fields")  # noqa: TRY004
        tree = below
    if _unambiguous(tree, last) in tree:
        raise ValueError(f"{last} contains fields, and cannot be a field")
    tree[last] = kind


def _unambiguous(tree: _Tree, part: str) -> str:
    if not part:
        raise ValueError("a part of the name is empty")
    for other in tree:
        if other.lower() == part.lower() and other != part:
            raise ValueError(f"{other} and {part} differ in case only")
    return part


def _struct(tree: Mapping[str, str | _Tree]) -> types.StructType:
    fields = (
        types.StructField(name, getattr(types, _TYPES[below])() if isinstance(below, str) else _struct(below))
        for name, below in tree.items()
    )
    return types.StructType(list(fields))


def _value(name: str) -> Column:
    nested = reduce(lambda outer, part: outer.getField(part), name.split("."), F.col("_json"))
    return F.coalesce(F.col("_json").getField(name), nested) if "." in name else nested
