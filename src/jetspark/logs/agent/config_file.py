"""Reads and checks `shipper.toml`. Every mistake is a `UsageError` with the file, the line and the key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from jetspark.errors import UsageError
from jetspark.logs.agent.input import COMPRESSED, JournalSource, LogInput
from jetspark.logs.agent.multiline import MAX_LINES, TIMEOUT, Multiline
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.toml_file import convert, read_toml
from jetspark.logs.toml_lines import Where

__all__ = ["ShipFile", "read_ship_file"]

_T = TypeVar("_T")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RULES: Final = ("preset", "start", "continuation")


class ShipFile(msgspec.Struct, frozen=True):
    """The contents of a file."""

    #: The keyword arguments of `ShipOptions` that the file sets.
    options: dict[str, Any]
    #: The stream to create if it is missing.
    create: str | None


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    preset: str = ""
    start: str = ""
    continuation: str = ""
    timeout: float = TIMEOUT
    max_lines: int = MAX_LINES


class _Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    matches: tuple[str, ...] = ()
    directory: str = ""


class _Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: list[str] | None = None
    journal: dict[str, Any] | None = None
    exclude: tuple[str, ...] = COMPRESSED
    prefix: str | None = None
    container: str = ""
    multiline: dict[str, Any] | None = None


class _Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The keys outside of inputs: `create`, and options of `ShipOptions`."""

    input: dict[str, Any]
    create: str | None = None
    host: str | None = None
    prefix: str | None = None
    partitions: int | None = None
    positions: str | None = None
    from_end: bool | None = None
    max_line: int | None = None
    compress: str | None = None
    window: int | None = None
    close_after: float | None = None


def read_ship_file(path: Path) -> ShipFile:
    """Read and check a file. Paths and patterns in it are relative to its directory."""
    found, where = read_toml(path)
    agent = convert(where, found, _Agent)
    options: dict[str, Any] = {}
    for name in agent.__struct_fields__[2:]:
        if (value := getattr(agent, name)) is not None:
            value = Path(_resolved(where, name, value)) if name == "positions" else value
            _checked(where, name, ShipOptions, **{name: value})
            options[name] = value
    if not agent.input:
        raise where.error("input", "there are no inputs", "Add a table such as [input.nginx]")
    prefix = options.pop("prefix", "logs")
    options["inputs"] = tuple(_input(where, name, table, prefix) for name, table in agent.input.items())
    return ShipFile(options, agent.create)


def _input(where: Where, name: str, table: object, prefix: str) -> LogInput:
    section = f"input.{name}"
    if _NAME.fullmatch(name) is None:
        raise where.error(("input", name), "must be letters, digits, - and _, 64 at most")
    found = convert(where, table, _Input, section)
    if (found.files is None) == (found.journal is None):
        raise where.error(section, "must have either files or a journal")
    if found.files == []:
        raise where.error(f"{section}.files", "is empty")
    patterns = [_resolved(where, f"{section}.files", each) for each in found.files or ()]
    if found.journal is not None and (found.container or found.multiline is not None):
        raise where.error(section, "a journal has no lines to join", "Remove container and multiline")
    if found.prefix is not None:
        _checked(where, f"{section}.prefix", ShipOptions, prefix=found.prefix)
    if found.container:
        _checked(where, f"{section}.container", Multiline, container=found.container)
    rule: Multiline | None = None
    if found.container or found.multiline is not None:
        rule = _rule(where, section, found.multiline or {}, found.container)
    return LogInput(
        name=name,
        patterns=patterns,
        exclude=found.exclude,
        journal=None if found.journal is None else _journal(where, section, found.journal),
        prefix=prefix if found.prefix is None else found.prefix,
        multiline=rule,
    )


def _journal(where: Where, section: str, table: object) -> JournalSource:
    section = f"{section}.journal"
    found = convert(where, table, _Journal, section)
    directory = _resolved(where, f"{section}.directory", found.directory) if found.directory else ""
    return _checked(where, f"{section}.matches", JournalSource, matches=found.matches, directory=directory)


def _rule(where: Where, section: str, table: object, container: str) -> Multiline:
    section = f"{section}.multiline"
    found = convert(where, table, _Rule, section)
    for name in _RULES:
        if value := getattr(found, name):
            _checked(where, f"{section}.{name}", Multiline, **{name: value})
    for name in ("timeout", "max_lines"):
        _checked(where, f"{section}.{name}", Multiline, preset="json", **{name: getattr(found, name)})
    return _checked(where, section, Multiline, container=container, **msgspec.structs.asdict(found))


def _checked(where: Where, key: str, kind: Callable[..., _T], **options: Any) -> _T:
    """A value of a type with these options. A `UsageError` gets the line and the key."""
    try:
        return kind(**options)
    except UsageError as error:
        what = str(error.args[0]).removeprefix(f"{key.rpartition('.')[2]} ")
        raise where.error(key, what) from None


def _resolved(where: Where, key: str, path: str) -> str:
    if not path or "\0" in path:
        raise where.error(key, f"{path!r} is not a path")
    return str((where.path.parent / os.path.expanduser(path)).absolute())
