"""Parses the options that Spark passes: text, with lower-case names. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from jetspark.errors import UsageError
from jetspark.spark.options.checks import check_bounds, check_connection, check_exclusions, with_bucket
from jetspark.spark.options.table import BY_NAME, OPTIONS, Option
from jetspark.spark.options.types import ConnectionOptions, SourceOptions

__all__ = ["parse_options"]

#: Options of `writeStream` itself, which Spark passes on.
_OF_SPARK: Final = ("checkpointlocation", "queryname")
#: Not shown in errors. A URL may contain a password, though it should not.
_SECRETS: Final = ("password", "token", "servers")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options. Raises `UsageError`, which names the option and what it accepts."""
    values: dict[str, Any] = {}
    connection: dict[str, Any] = {}
    given: list[str] = []
    for key, text in options.items():
        option = BY_NAME.get(key.lower())
        if key.lower() in _OF_SPARK:
            continue
        if option is None:
            raise _unknown(key)
        given.append(option.name)
        (connection if option.of_connection else values)[option.field] = _parse(option, text)
    parsed = SourceOptions(connection=ConnectionOptions(**connection), given=tuple(sorted(given)), **values)
    check_connection(parsed.connection)
    check_exclusions(parsed)
    parsed = with_bucket(parsed)
    check_bounds(parsed)
    return parsed


def _parse(option: Option, text: str) -> object:
    try:
        return option.parse(text)
    except UsageError as error:
        raise UsageError(f"option {option.name}: {error.args[0]}", hint=error.hint) from None
    except ValueError as error:
        shown = "" if option.name in _SECRETS else f", not {text!r}"
        raise UsageError(f"option {option.name} must be {error}{shown}") from None


def _unknown(key: str) -> UsageError:
    if key.lower() == "path":
        return UsageError("load() takes no path", hint='Name the stream: .option("stream", "ORDERS").load()')
    near = difflib.get_close_matches(key.lower(), BY_NAME, n=1)
    suggestion = f"Did you mean {BY_NAME[near[0]].name}? " if near else ""
    names = ", ".join(option.name for option in OPTIONS)
    return UsageError(f"unknown option {key!r}", hint=f"{suggestion}The options are: {names}")
