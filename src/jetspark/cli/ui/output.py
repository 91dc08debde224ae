"""What a command says: tables and lines for people, JSON for programs, remarks on stderr.

Results go to stdout. Remarks and progress go to stderr, and only to a terminal; warnings always. Colours are
for terminals alone. Everything is escaped here: callers hand over what they have.
"""

from __future__ import annotations

import functools
import io
import json
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from jetspark.cli.ui.escape import in_json, on_a_line
from jetspark.cli.ui.failure import Exit, Failure

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "Progress", "buffer_stdout"]


class Progress:
    """How far long work is. Shows nothing unless stderr is a terminal."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, number: int) -> None:
        """So many more are done."""
        if self._bar is not None:
            self._bar.advance(self._task, number)

    def reach(self, number: int) -> None:
        """So many are done in all."""
        if self._bar is not None:
            self._bar.update(self._task, completed=number)


class Output:
    """The way out of a command. `json` says whether a program reads it."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    # --- results

    def value(self, value: Any) -> None:
        """A JSON document."""
        sys.stdout.write(in_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")

    def record(self, value: Any) -> None:
        """One JSON document of many: a line."""
        self.text(in_json(json.dumps(value, ensure_ascii=False)), safe=True)

    def text(self, text: object = "", *, safe: bool = False) -> None:
        """A line. With `safe` it is escaped already, and may have several."""
        sys.stdout.write((str(text) if safe else on_a_line(text)) + "\n")
        sys.stdout.flush()

    def raw(self, data: bytes) -> None:
        """Bytes as they are, for programs."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def heading(self, text: str) -> None:
        """What the following is about."""
        _console("stdout").print(on_a_line(text), style="bold")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Rows of a kind; numbers stand right. Without rows, `empty` as a remark."""
        listed = [[_show(cell) for cell in row] for row in rows]
        if not listed:
            self.note(empty)
            return
        right = [all(map(_is_number, column)) for column in zip(*listed, strict=True)]
        if sys.stdout.isatty():
            _draw(columns, listed, right)
            return
        widths = [max(map(len, column)) for column in zip(columns, *listed, strict=True)]
        for row in (columns, *listed):
            cells = (
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, right, strict=True)
            )
            self.text("  ".join(cells).rstrip(), safe=True)

    def details(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names and values, the names right as the `nats` CLI has them. None is left out."""
        shown = [(name, value) for name, value in pairs if value is not None]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.text(f"{name:>{width}}: {_show(value)}", safe=True)

    # --- remarks

    def note(self, text: str) -> None:
        """A remark that only somebody at a terminal wants."""
        if sys.stderr.isatty():
            _console("stderr").print(on_a_line(text), style="dim")

    def warn(self, text: str) -> None:
        """Something that must not be missed."""
        sys.stderr.write(f"jetspark: {on_a_line(text)}\n")

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Progress]:
        """Show how far it is while the context lasts."""
        if not sys.stderr.isatty():
            yield Progress()
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
            yield Progress(bar, bar.add_task(on_a_line(what), total=total))

    # --- questions

    def confirm(self, question: str, *, force: bool) -> None:
        """Go on only if somebody wants it. Raises `Failure` when they do not, or when nobody can be asked."""
        if force:
            return
        if not self.interactive:
            raise Failure(
                f"nobody can be asked here: {question}",
                "Add --force, or run it in a terminal",
                Exit.USAGE,
            )
        with _interruptible():
            if not typer.confirm(on_a_line(question), err=True):
                raise Failure("nothing was changed")

    def ask(self, question: str, *, default: str | None = None) -> str:
        """Ask for a word; only when `interactive`."""
        with _interruptible():
            return str(typer.prompt(question, default=default, err=True))

    def ask_secret(self, user: str) -> str:
        """Ask for the password of a user."""
        with _interruptible():
            return str(typer.prompt(f"Password of {on_a_line(user)}", hide_input=True, err=True))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question: the event loop would only take note of it, and wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def buffer_stdout() -> None:
    """Put a buffer before stdout where there is none, as with PYTHONUNBUFFERED.

    Without one a write to a pipe that is full is cut short, and nobody is told. What must be seen at once is
    flushed anyway.
    """
    unbuffered = getattr(sys.stdout, "buffer", None)
    if isinstance(unbuffered, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(unbuffered), encoding=sys.stdout.encoding, errors=sys.stdout.errors
        )


def _show(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else on_a_line(value)


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").isdigit()


def _draw(columns: Sequence[str], rows: list[list[str]], right: list[bool]) -> None:
    """A table on a terminal."""
    from rich import box  # noqa: PLC0415 - loaded when something is shown
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.ROUNDED, header_style="bold")
    for column, is_right in zip(columns, right, strict=True):
        table.add_column(Text(column), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    _console("stdout").print(table)


def _console(stream: str) -> Console:
    return _console_on(getattr(sys, stream))


@functools.lru_cache(maxsize=2)
def _console_on(file: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - loaded when something is shown

    # What is piped is not cut to the width of a terminal that is not there.
    width = None if file.isatty() else 100_000
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def _rate_column() -> Any:
    from rich.progress import ProgressColumn, Task  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    return Rate()
