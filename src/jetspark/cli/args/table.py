"""Options as tables, for commands with many of them. Typer reads signatures, so the table becomes one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args.parameters import choice_option, count_option, duration_option, limit_option, option
from jetspark.cli.args.units import count, duration, limit

__all__ = ["Options", "as_parameters", "flags_of", "name_flags", "setting", "take_options"]

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
    r"|^(\w+)(?= must be | is empty)"
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


def flags_of(parameters: Iterable[inspect.Parameter]) -> dict[str, str]:
    """The flags of those parameters that are options."""
    found = {}
    for parameter in parameters:
        info = getattr(parameter.annotation, "__metadata__", (None,))[0]
        # In an annotation, the first flag is the positional argument that typer calls `default`.
        names = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
        flag = next((str(name) for name in names if str(name).startswith("--")), None)
        if flag is not None:
            found[parameter.name] = flag.partition("/")[0]
    return found


def name_flags(message: str, flags: Mapping[str, str]) -> str:
    """An error of the library with flags in place of names: `--max-age`, not `StreamConfig.max_age`."""

    def replace(found: re.Match[str]) -> str:
        field = found[1] or found[2] or found[3]
        return flags.get(_OPTION_OF_FIELD.get(field, field), found[0])

    return _FIELD.sub(replace, message)
