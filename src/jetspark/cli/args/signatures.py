"""Options as tables, and functions that have them in the eyes of typer, which reads signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import typer

__all__ = ["Options", "as_parameters", "take_options"]

#: Options by their names in Python: annotation for typer, and default.
Options: TypeAlias = Mapping[str, tuple[Any, object]]


def as_parameters(options: Options) -> list[inspect.Parameter]:
    """Options as the parameters of a function."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]


def take_options(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Let a function of any keywords have these, and `ctx`, in the eyes of typer."""
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    every = [ctx, *parameters]
    function.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
