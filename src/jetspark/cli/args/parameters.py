"""Kinds of arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args.complete import consumer_names, stream_names
from jetspark.cli.args.units import count, duration, limit, moment, size

__all__ = [
    "ConsumerName",
    "Force",
    "Metrics",
    "StreamName",
    "checked",
    "choice",
    "count_option",
    "duration_option",
    "flag",
    "limit_option",
    "many",
    "moment_option",
    "one_of",
    "option",
    "pairs",
    "period",
    "size_option",
    "word",
    "words",
]

#: Choices that are longer are listed in the help, which has room for them.
_WIDEST: Final = 8

StreamName: TypeAlias = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", autocompletion=stream_names)
]
ConsumerName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.", autocompletion=consumer_names)
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


def option(*flags: str, help: str, **more: Any) -> Any:
    """An option without the noise of a default that is none."""
    return typer.Option(*flags, help=help, show_default=False, **more)


def word(*flags: str, help: str, metavar: str = "TEXT", **more: Any) -> Any:
    """The annotation of an option that is a text."""
    return Annotated[str | None, option(*flags, help=help, metavar=metavar, **more)]


def many(*flags: str, help: str, metavar: str, **more: Any) -> Any:
    """The annotation of an option that can be given several times."""
    return Annotated[list[str] | None, option(*flags, help=help, metavar=metavar, **more)]


def flag(*flags: str, help: str) -> Any:
    """The annotation of a switch with three states: on, off, not said."""
    return Annotated[bool | None, option(*flags, help=help)]


def one_of(*accepted: str, synonyms: dict[str, str] | None = None) -> Callable[[str], str]:
    """A parser that takes one of several words."""

    def parse(text: str) -> str:
        lowered = text.strip().lower()
        chosen = (synonyms or {}).get(lowered, lowered)
        if chosen not in accepted:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(accepted)}")
        return chosen

    return parse


def choice(*flags: str, help: str, choices: Iterable[str], synonyms: dict[str, str] | None = None) -> Any:
    """The annotation of an option that takes one of several words."""
    accepted = list(choices)
    metavar = "|".join(accepted)
    if len(metavar) > _WIDEST:
        metavar, help = "WORD", f"{help} One of {', '.join(accepted)}."

    def complete(incomplete: str) -> list[str]:
        return [each for each in accepted if each.startswith(incomplete)]

    return Annotated[
        str | None,
        option(
            *flags,
            help=help,
            metavar=metavar,
            parser=one_of(*accepted, synonyms=synonyms),
            autocompletion=complete,
        ),
    ]


def checked(parser: Callable[[str], Any]) -> Callable[[str], Any]:
    """The parser for typer, which would put words of its own before those of a ValueError."""

    def parse(text: str) -> Any:
        try:
            return parser(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def period(*flags: str, help: str) -> Any:
    """An option that is a duration."""
    return option(*flags, help=help, metavar="DURATION", parser=checked(duration))


def _parsed(kind: Any, parser: Callable[[str], Any], metavar: str) -> Callable[..., Any]:
    def make(*flags: str, help: str) -> Any:
        return Annotated[kind | None, option(*flags, help=help, metavar=metavar, parser=checked(parser))]

    return make


duration_option = _parsed(float, duration, "DURATION")
size_option = _parsed(int, size, "SIZE")
limit_option = _parsed(int, limit, "SIZE")
count_option = _parsed(int, count, "NUMBER")
moment_option = _parsed(Any, moment, "TIME")


def words(values: list[str] | None) -> list[str]:
    """What was given in several options, or in one with commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def pairs(values: list[str] | None, separator: str, flag: str) -> dict[str, list[str]]:
    """`name: value` or `name=value` each; a name may come several times."""
    found: dict[str, list[str]] = {}
    for value in values or ():
        name, divider, rest = value.partition(separator)
        if not divider or not name.strip():
            raise typer.BadParameter(f"{value!r} is not NAME{separator}VALUE", param_hint=flag)
        found.setdefault(name.strip(), []).append(rest.strip())
    return found


#: Of commands that run until they are stopped.
Metrics: TypeAlias = Annotated[
    float | None, period("--metrics", help="Say how it stands every so often (10s); 0 is never.")
]
