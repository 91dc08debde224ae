"""Templates in published messages: `{{Count}}`, `{{Time}}`, `{{Random 10 100}}`, as in the `nats` CLI.

There is no expression language: `_WORDS` lists every template. Pure, except for the clock and random numbers.
"""

from __future__ import annotations

import random
import re
import secrets
import string
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import typer

__all__ = ["Template", "Verbatim"]

_PLACE: Final = re.compile(r"\{\{\s*\.?(\w+)((?:\s+[^\s{}]+)*)\s*\}\}")
_LETTERS: Final = string.ascii_letters + string.digits


def _random(least: str, most: str) -> Callable[[int], str]:
    low, high = int(least), int(most)
    if not 0 <= low <= high:
        raise ValueError
    return lambda _: "".join(random.choices(_LETTERS, k=random.randint(low, high)))


# A function per word that takes the arguments and returns a renderer; a renderer takes the message number.
_WORDS: Final[dict[str, Callable[..., Callable[[int], str]]]] = {
    "Count": lambda: str,
    "ID": lambda: lambda _: secrets.token_hex(11),
    "Time": lambda: lambda _: datetime.now().strftime("%H:%M:%S"),
    "TimeStamp": lambda: lambda _: datetime.now().astimezone().isoformat(),
    "Unix": lambda: lambda _: str(int(time.time())),
    "UnixNano": lambda: lambda _: str(time.time_ns()),
    "Random": _random,
}
_KNOWN: Final = "Count, ID, Time, TimeStamp, Unix, UnixNano and Random MIN MAX"


class Template:
    """A text with templates in it. Raises `typer.BadParameter` for unknown ones."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | Callable[[int], str]] = []
        end = 0
        for found in _PLACE.finditer(text):
            self._parts += [text[end : found.start()], self._renderer(found)]
            end = found.end()
        self._parts.append(text[end:])

    def render(self, number: int) -> str:
        """The text of message `number`, counted from 1."""
        return "".join(part if isinstance(part, str) else part(number) for part in self._parts)

    @staticmethod
    def _renderer(found: re.Match[str]) -> Callable[[int], str]:
        word, arguments = found[1], found[2].split()
        try:
            return _WORDS[word](*arguments)
        except (KeyError, TypeError, ValueError):
            raise typer.BadParameter(
                f"unknown template {found[0]!r}; known are {_KNOWN}. --no-templates sends it unchanged"
            ) from None


class Verbatim:
    """A text that is sent unchanged in every message."""

    def __init__(self, text: str) -> None:
        self._text = text

    def render(self, number: int) -> str:
        """The text, whatever the number."""
        return self._text
