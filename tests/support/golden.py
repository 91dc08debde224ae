"""Golden files: texts that users see, compared as a whole with `tests/golden/<name>.txt`.

`make golden` sets `GOLDEN=write`: only the tests that use the fixture `golden` run, and the files are written
anew. A change of a text is read as a diff of its file.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from jetspark.errors import UsageError
from tests.support.cases import Cases

__all__ = ["FOLDER", "Golden", "Refusals", "compare", "golden", "writing"]

FOLDER = Path(__file__).parents[1] / "golden"

Golden: TypeAlias = Callable[[str, str], None]

# Longer texts are shown without their middle.
_LONG: Final = 400


def writing() -> bool:
    """Whether the files are to be written."""
    return os.environ.get("GOLDEN") == "write"


@pytest.fixture
def golden() -> Golden:
    """`golden("cli-help", text)`: compare a text with its file."""
    return compare


def compare(name: str, text: str, folder: Path = FOLDER) -> None:
    """Fail with a diff unless `text` is what the file holds; in writing mode, write the file."""
    path = folder / f"{name}.txt"
    text = "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
    if writing():
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    where = f"tests/golden/{path.name}"
    if not path.exists():
        pytest.fail(f"{where} is missing: run `make golden` and read the diff", pytrace=False)
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        diff = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), where, "what the test got", n=2, lineterm=""
        )
        shown = "\n".join(diff)
        pytest.fail(f"{where} differs: run `make golden` and read the diff\n{shown}", pytrace=False)


class Refusals:
    """The errors of calls that are refused, as sections of a golden file."""

    def __init__(self, hidden: Mapping[str, str] | None = None) -> None:
        """`hidden` has patterns for what differs from machine to machine, and what is written instead."""
        self._hidden = hidden or {}
        self._lines: list[str] = []
        self._cases = Cases()

    def section(self, title: str) -> None:
        self._lines += ["", f"# {title}", ""]

    @contextmanager
    def refusal(
        self, given: object, *, names: str = "", hides: str | None = None, kind: type[Exception] = UsageError
    ) -> Iterator[None]:
        """What runs in this context must raise `kind`, with the words `names` and without the secret `hides`.

        `given` is what was refused: arguments, or a name.
        """
        shown = str(given)
        if isinstance(given, dict):
            shown = ", ".join(f"{name}={_show(value)}" for name, value in given.items()) or "nothing"
        with self._cases.case(shown):
            with pytest.raises(kind) as caught:
                yield
            text = str(caught.value)
            assert type(caught.value) is kind
            assert not names or re.search(rf"(?<!\w){re.escape(names)}(?!\w)", text), f"{names}: {text}"
            assert hides is None or hides not in text
            self._lines += [shown, f"    {kind.__name__}: {_printable(text)}"]

    def text(self) -> str:
        """The sections. Fails if something was not refused as it must be."""
        self._cases.end()
        text = "\n".join(self._lines)
        for pattern, instead in self._hidden.items():
            text = re.sub(pattern, instead, text)
        return text


def _show(value: object) -> str:
    """A value, without the addresses that differ from run to run."""
    return _short(re.sub(r"<(?:function )?(?:[\w.]+\.)?(\w+)[^<>]* at 0x[0-9a-f]+>", r"<\1>", ascii(value)))


def _printable(text: str) -> str:
    return _short("".join(char if char.isprintable() else ascii(char)[1:-1] for char in text))


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG // 8]} ... {text[-_LONG // 8 :]} ({len(text):,} characters)"
