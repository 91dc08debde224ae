"""Reads a TOML file and its tables as types. Mistakes are `UsageError`s with file, line and key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jetspark.errors import UsageError
from jetspark.logs.toml_lines import Where

__all__ = ["convert", "read_toml"]

_T = TypeVar("_T")


def read_toml(path: Path) -> tuple[dict[str, Any], Where]:
    """The tables of a file, and the `Where` that names its lines in errors."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    try:
        return tomllib.loads(text), Where(path, text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name}: {error}", hint="The file must be valid TOML") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path.name}: a number is too long, or values are nested too deeply") from None


def convert(where: Where, table: object, kind: type[_T], section: str = "") -> _T:
    """A table as a value of a type. Raises `UsageError` with the key that msgspec names."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
    key = (section + re.sub(r"\[[^\]]*\]", "", path.rstrip("`"))).lstrip(".")
    if found := re.match(r"Object (?:contains unknown|missing required) field `(.*)`", what):
        key = f"{key}.{found[1]}".lstrip(".")
        raise where.error(key, "is missing" if "missing" in what else "unknown key")
    raise where.error(key or "the file", what[0].lower() + what[1:].replace("`", ""))
