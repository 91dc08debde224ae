"""Options as tables, for commands with many of them. Typer reads signatures, so the table becomes one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args.parameters import choice_option, count_option, duration_option, limit_option, option
from jetspark.cli.args.units import count, duration, limit

__all__ = ["Options", "as_parameters", "name_flags", "setting", "take_options"]

#: Options by parameter name: the annotation for typer, and the default.
Options: TypeAlias = Mapping[str, tuple[Any, object]]

#: Fields of a configuration that an option of another name sets.
_OPTION_OF_FIELD: Final = {
    "filter_subject": "filter",
    "filter_subjects": "filter",
    "deliver_policy": "deliver",
    "opt_start_seq": "deliver",
    "opt_start_time": "deliver",
    "no_ack": "ack",
    "placement": "cluster",
}
_UNITS: Final = {count: count_option, duration: duration_option, limit: limit_option}
_FIELD: Final = re.compile(
    r"\b(?:StreamConfig|ConsumerConfig|KeyValueConfig|ObjectStoreConfig)\.(\w+)|\b([a-z]+_[a-z_]+)\b"
)


def setting(kind: Any, *flags: str, **more: Any) -> tuple[Any, None]:
    """A row of a table: an option that is None unless given. `kind` is a type, or a parser of a unit."""
    if kind in _UNITS:
        return Annotated[Any, _UNITS[kind](*flags, **more)], None
    return Annotated[kind | None, (choice_option if "choices" in more else option)(*flags, **more)], None


def as_parameters(options: Options) -> list[inspect.Parameter]:
    """The parameters of a function that takes these options."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]


def take_options(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Give a function that takes any keywords the signature of these parameters and `ctx`."""
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    every = [ctx, *parameters]
    function.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in every}


def name_flags(message: str, options: Options) -> str:
    """An error of the library with flags in place of field names: `--max-age`, not `StreamConfig.max_age`."""

    def replace(found: re.Match[str]) -> str:
        field = found[1] or found[2]
        row = options.get(_OPTION_OF_FIELD.get(field, field))
        return found[0] if row is None else _flag(row[0].__metadata__[0])

    return _FIELD.sub(replace, message)


def _flag(info: Any) -> str:
    # In an annotation, the first flag is the positional argument that typer calls `default`.
    return next(
        str(flag) for flag in (info.default, *info.param_decls) if str(flag).startswith("--")
    ).partition("/")[0]
