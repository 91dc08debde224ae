"""Types of options that several commands use, and how their values are parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args.units import count, duration, limit, moment, size

__all__ = [
    "AgentWait",
    "EndAfter",
    "EndWhenIdle",
    "Force",
    "Metrics",
    "OpenTelemetry",
    "choice_option",
    "comma_separated",
    "count_option",
    "duration_option",
    "limit_option",
    "metadata",
    "moment_option",
    "name_values",
    "one_of",
    "option",
    "parser",
    "size_option",
]

#: The widest list of choices that is shown as the metavar; longer lists go into the help text.
_WIDEST: Final = 8


def option(*flags: str, help: str, **more: Any) -> Any:
    """An option whose default the help does not show."""
    return typer.Option(*flags, help=help, show_default=False, **more)


def parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser for typer, which would replace the text of a ValueError by its own."""

    def parse_or_refuse(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_refuse


def _parsed(parse: Callable[[str], Any], metavar: str) -> Callable[..., Any]:
    def make(*flags: str, help: str, **more: Any) -> Any:
        return option(*flags, help=help, metavar=metavar, parser=parser(parse), **more)

    return make


duration_option = _parsed(duration, "DURATION")
size_option = _parsed(size, "SIZE")
limit_option = _parsed(limit, "SIZE")
count_option = _parsed(count, "NUMBER")
moment_option = _parsed(moment, "TIME")


def one_of(*accepted: str, synonyms: dict[str, str] | None = None) -> Callable[[str], str]:
    """A parser that accepts one of several words."""

    def parse(text: str) -> str:
        lowered = text.strip().lower()
        chosen = (synonyms or {}).get(lowered, lowered)
        if chosen not in accepted:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(accepted)}")
        return chosen

    return parse


def choice_option(
    *flags: str, help: str, choices: Iterable[str], synonyms: dict[str, str] | None = None, **more: Any
) -> Any:
    """An option that accepts one of several words."""
    accepted = list(choices)
    metavar = "|".join(accepted)
    if len(metavar) > _WIDEST:
        metavar, help = "WORD", f"{help} One of {', '.join(accepted)}."
    return option(
        *flags,
        help=help,
        metavar=metavar,
        parser=one_of(*accepted, synonyms=synonyms),
        autocompletion=lambda incomplete: [each for each in accepted if each.startswith(incomplete)],
        **more,
    )


def comma_separated(values: list[str] | None) -> list[str]:
    """The values of an option that can be repeated, and can hold several values with commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def name_values(values: list[str] | None, separator: str, flag: str) -> dict[str, list[str]]:
    """`NAME:VALUE` or `NAME=VALUE` pairs, by name; a name can be repeated."""
    found: dict[str, list[str]] = {}
    for value in values or ():
        name, divider, rest = value.partition(separator)
        if not divider or not name.strip():
            raise typer.BadParameter(f"{value!r} is not NAME{separator}VALUE", param_hint=flag)
        found.setdefault(name.strip(), []).append(rest.strip())
    return found


def metadata(values: list[str]) -> dict[str, str]:
    """The pairs of `--metadata`; the last value of a name wins."""
    return {name: found[-1] for name, found in name_values(values, "=", "--metadata").items()}


Force: TypeAlias = Annotated[bool, typer.Option("--force", "-f", help="Do not ask for confirmation.")]
EndAfter: TypeAlias = Annotated[
    int | None, option("--count", metavar="NUMBER", min=1, help="Stop after this many.")
]
EndWhenIdle: TypeAlias = Annotated[
    float | None, duration_option("--wait", help="Stop when nothing arrives for this long.")
]
Metrics: TypeAlias = Annotated[
    float | None, duration_option("--metrics", help="Print the status this often (10s); 0 is never.")
]
OpenTelemetry: TypeAlias = Annotated[
    bool, typer.Option("--otel", help="Trace with OpenTelemetry, as the variables OTEL_* configure it.")
]
AgentWait: TypeAlias = Annotated[
    float | None, duration_option("--wait", help="Wait this long for the agents to react (3s).")
]
