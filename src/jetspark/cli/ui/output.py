"""The output of a command: text and tables for people, JSON for programs.

Results go to stdout, warnings to stderr. Notes, progress and colours appear only on a terminal. All text is
escaped here; callers pass it unescaped.
"""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

import typer

from jetspark.cli.ui import log
from jetspark.cli.ui.escape import escape_json, escape_line, escape_payload
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.streams import is_pipe
from jetspark.cli.ui.table import fit_columns

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "ProgressBar"]

#: A number, size, duration, date, or several of them.
_EXACT: Final = re.compile(r"-?\d[\d.,:/@ -]*[A-Za-z%/]{0,3}(?:\d+[a-z]{1,2})*(?: ago)?")


class ProgressBar:
    """The progress of long work. Shows nothing unless stderr is a terminal."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, number: int) -> None:
        """Count this many more as done."""
        if self._bar is not None:
            self._bar.advance(self._task, number)

    def reach(self, number: int) -> None:
        """Set how many are done in all."""
        if self._bar is not None:
            self._bar.update(self._task, completed=number)


class Output:
    """Prints the output of a command, as JSON if `json` is set."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    @property
    def interactive(self) -> bool:
        """Whether the user can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty() and not log.is_json()

    @property
    def animated(self) -> bool:
        """Whether progress is shown: on a terminal, unless a program that reads the output shows it there."""
        return sys.stderr.isatty() and not is_pipe(sys.stdout) and not log.is_json()

    # --- results

    def value(self, value: Any) -> None:
        """Print a JSON document."""
        sys.stdout.write(escape_json(_dumps(value, indent=2)) + "\n")

    def record(self, value: Any) -> None:
        """Print one JSON document of many, on a line."""
        self.text(escape_json(_dumps(value)), safe=True)

    def result(self, document: Any, text: object) -> None:
        """Print the result of a command: a JSON document, or the text."""
        if self.json:
            self.value(document)
        else:
            self.text(text)

    def entry(self, document: Any, text: object) -> None:
        """Print one result of many: a JSON document on a line, or the text."""
        if self.json:
            self.record(document)
        else:
            self.text(text)

    def names(self, names: Iterable[str]) -> None:
        """Print names: a JSON list, or a line each."""
        if self.json:
            self.value(list(names))
            return
        for name in names:
            self.text(name)

    def text(self, text: object = "", *, safe: bool = False) -> None:
        """Print a line. With `safe` the text is already escaped and can have several lines."""
        sys.stdout.write((str(text) if safe else escape_line(text)) + "\n")
        sys.stdout.flush()

    def raw(self, data: bytes) -> None:
        """Print bytes unchanged, for programs. On a terminal they are escaped: it would obey them."""
        if sys.stdout.isatty():
            sys.stdout.write(escape_payload(data))
            sys.stdout.flush()
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def heading(self, text: str) -> None:
        """Print a heading."""
        _console("stdout").print(escape_line(text), style="bold")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Print a table with numbers aligned right. Without rows, print `empty` as a note."""
        listed = [[_show(cell) for cell in row] for row in rows]
        if not listed:
            self.note(empty)
            return
        right = [all(map(_is_number, column)) for column in zip(*listed, strict=True)]
        if sys.stdout.isatty():
            if left_out := _draw(columns, listed, right):
                self.note(f"Too narrow for {', '.join(left_out)}; --json has everything")
            return
        widths = [max(map(len, column)) for column in zip(columns, *listed, strict=True)]
        for row in (columns, *listed):
            cells = (
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, right, strict=True)
            )
            self.text("  ".join(cells).rstrip(), safe=True)

    def listing(
        self, documents: Any, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str
    ) -> None:
        """Print a list: JSON documents, or a table."""
        if self.json:
            self.value(documents)
        else:
            self.table(columns, rows, empty=empty)

    def describe(self, document: Any, heading: str, pairs: Iterable[tuple[str, object]]) -> None:
        """Print one thing: a JSON document, or a heading and details."""
        if self.json:
            self.value(document)
            return
        self.heading(heading)
        self.text()
        self.details(pairs)

    def details(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values, aligned as in the `nats` CLI. Values that are None are left out."""
        shown = [(name, value) for name, value in pairs if value is not None]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.text(f"{name:>{width}}: {_show(value)}", safe=True)

    # --- notes

    def note(self, text: str) -> None:
        """Print a note: on a terminal, or as JSON."""
        if log.is_json():
            log.write("info", text)
        elif sys.stderr.isatty():
            _console("stderr").print(escape_line(text), style="dim")

    def warn(self, text: str) -> None:
        """Print a warning."""
        log.write("warning", text)

    def inform(self, text: str, **fields: str) -> None:
        """Print information for an operator, followed by the fields."""
        if log.is_json():
            log.write("info", text, **fields)
        else:
            log.write("info", " ".join([text, *fields.values()]))

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[ProgressBar]:
        """Show a progress bar while the context lasts."""
        if not self.animated:
            yield ProgressBar()
            return
        from rich import progress  # noqa: PLC0415 - loaded when something is shown

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            _rate_column(),
            console=_console("stderr"),
            transient=True,
        )
        with bar:
            yield ProgressBar(bar, bar.add_task(escape_line(what), total=total))

    # --- questions

    def confirm(self, question: str, *, force: bool) -> None:
        """Ask for confirmation. Raises `Failure` if the user declines, or cannot be asked."""
        if force:
            return
        if not self.interactive:
            raise Failure(
                f"confirmation needed: {question}",
                "Add --force, or run the command in a terminal",
                Exit.USAGE,
            )
        with _interruptible():
            if not typer.confirm(escape_line(question), err=True):
                raise Failure("nothing was changed")

    def ask(self, question: str, *, default: str | None = None) -> str:
        """Ask a question; only when `interactive`."""
        with _interruptible():
            return str(typer.prompt(question, default=default, err=True))

    def ask_secret(self, user: str) -> str:
        """Ask for the password of a user."""
        with _interruptible():
            return str(typer.prompt(f"Password for {escape_line(user)}", hide_input=True, err=True))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question. The handler of asyncio would only cancel the task, which waits for input."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _dumps(value: Any, *, indent: int | None = None) -> str:
    # Not every encoding has every character, and JSON knows how to escape them.
    return json.dumps(value, indent=indent, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"))


def _show(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else escape_line(value)


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").isdigit()


def _draw(columns: Sequence[str], rows: list[list[str]], right: list[bool]) -> list[str]:
    """Print a table on a terminal. Returns the columns for which there is no room."""
    from rich import box  # noqa: PLC0415 - loaded when something is shown
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = _console("stdout")
    cells = list(zip(columns, *rows, strict=True))
    widths = fit_columns(
        [max(map(cell_len, column)) for column in cells],
        [not all(map(_is_exact, column[1:])) for column in cells],
        console.width,
    )
    table = Table(box=box.ROUNDED, header_style="bold")
    overflow: Any = "ellipsis" if console.encoding.startswith("utf") else "crop"
    for column, is_right, width in zip(columns, right, widths, strict=True):
        if width:
            justify: Any = "right" if is_right else "left"
            table.add_column(Text(column), justify=justify, width=width, no_wrap=True, overflow=overflow)
    for row in rows:
        table.add_row(*(Text(cell) for cell, width in zip(row, widths, strict=True) if width))
    console.print(table)
    return [column for column, width in zip(columns, widths, strict=True) if not width]


def _is_exact(cell: str) -> bool:
    """Whether a shortened text would be wrong: a number, a size, a date."""
    return cell in ("", "never") or _EXACT.fullmatch(cell) is not None


def _console(stream: str) -> Console:
    return _console_on(getattr(sys, stream))


@functools.lru_cache(maxsize=2)
def _console_on(file: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - loaded when something is shown

    # Piped output is not wrapped: there is no terminal width.
    width = None if file.isatty() else 100_000
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def _rate_column() -> Any:
    from rich.progress import ProgressColumn, Task  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    return Rate()
