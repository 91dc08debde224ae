"""Runs the console blocks of a page, in order, and compares what they print with what the page shows.

A command begins with `$ `; the lines after it are its output, `...` stands for any lines. Times, ids, sizes,
rates and other measurements are masked, and so are runs of spaces, which depend on them.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cli.support import LONG, Cli, Process

__all__ = ["ROOT", "Command", "Page", "commands", "mask"]

ROOT = Path(__file__).parents[2]

#: What differs from run to run, and what is compared in its place.
_MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d\d:?\d\d|Z)?", "TIME"),
        (r"\[\d\d:\d\d:\d\d\]", "[TIME]"),
        (r"\[\w{22}\]", "[ID]"),
        (r"\b\w+ \w+ +\d+ \w{3} +\d+ +\d\d:\d\d\b", "USER GROUP SIZE DATE"),
        (r"^total \d+$", "total SIZE"),
        (r"/tmp/[\w-]+", "/tmp/ID"),
        (r"127\.0\.0\.1:(?!4999)\d+", "HOST:PORT"),
        (r"\?token=[\w-]+", "?token=TOKEN"),
        (r"\bjetspark-[0-9a-f]{8}\b", "SERVER"),
        (r"(Process: |\"pid\": )\d+", r"\1PID"),
        (r"\bby [\w.-]+@[\w.-]+", "by USER"),
        (r'"by": "[^"]+"', '"by": "USER"'),
        (r"-[0-9a-f]+-[0-9a-f]+-[0-9a-f]{16}-", "-ID-"),
        (r"-[0-9a-f]{12}-[0-9a-f]{6}\b", "-ID"),
        (r"\bpart-[\w.-]+\.parquet", "part-ID.parquet"),
        (r"(access/dead/\w+/\d+/)\d+", r"\1TIME"),
        (r"\b[\d,.]+ (B|[KMGT]iB)(/s)?", r"SIZE\2"),
        (r"\b[\d,.]+ (messages|lines|rows)/s", r"RATE \1"),
        (r"\b[\d,.]+/s", "RATE"),
        (r"\bin [\d.]+ s\b", "in SECONDS"),
        (r"\bpaused for [\dhms.]+", "paused for DURATION"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?([\d.]+(ns|us|ms|s))( ago)?\b", r"DURATION\6"),
        (r'"(seconds|remaining|lines_per_second|sequence|bytes)": [\d.]+', r'"\1": NUMBER'),
        (r"(Package \w+|Spark|Java|Server version): [\d.]+", r"\1: VERSION"),
        (r"  +", " "),
    )
]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command, and the output that the page shows."""

    text: str
    shown: tuple[str, ...]


def commands(page: Path) -> list[Command]:
    """The commands of the console blocks of a page."""
    found: list[Command] = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            text, *shown = part.rstrip("\n").splitlines()
            found.append(Command(re.sub(r" +# .*", "", text), tuple(shown)))
    return found


def mask(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, put in _MASKS:
        line = pattern.sub(put, line)
    return line.strip()


def _masked(lines: list[str]) -> list[str]:
    masked = [mask(line) for line in lines]
    while masked and not masked[-1]:
        masked.pop()
    return masked


@dataclasses.dataclass
class Page:
    """A page, and what its commands need that the page does not show."""

    name: str
    #: By the beginning of a command: done before it runs.
    before: Mapping[str, Callable[[], object]] = dataclasses.field(default_factory=dict)
    #: By the beginning of a command: why it is not run.
    not_run: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The beginnings of commands that go on until they are stopped.
    endless: tuple[str, ...] = ()
    #: The beginnings of commands whose output the page leaves out. They must succeed.
    silent: tuple[str, ...] = ()
    #: The directory that the page shows in place of the one in which it runs.
    place: str = ""

    def run(self, cli: Cli, scratch: Path) -> None:
        """Run every command in the directory. Raises AssertionError with the difference."""
        path = ROOT / self.name
        listed = commands(path)
        for beginning in (*self.before, *self.not_run, *self.endless, *self.silent):
            assert any(each.text.startswith(beginning) for each in listed), f"{path} has no {beginning!r}"
        for command in listed:
            if any(command.text.startswith(beginning) for beginning in self.not_run):
                continue
            for beginning, prepare in self.before.items():
                if command.text.startswith(beginning):
                    prepare()
            if self.silent and command.text.startswith(self.silent):
                assert not command.shown
                cli(*_arguments(command.text, scratch))
                continue
            endless = command.text.startswith(self.endless) if self.endless else False
            printed = _run_endless(command, scratch) if endless else _run(command, cli, scratch)
            if self.place:
                printed = [line.replace(str(scratch), self.place) for line in printed]
            _compare(self.name, command, printed)


def _run(command: Command, cli: Cli, scratch: Path) -> list[str]:
    text, head, _ = command.text.partition(" | head -1")
    if not text.startswith("jetspark "):
        ended = subprocess.run(
            ["sh", "-c", text], capture_output=True, text=True, timeout=LONG, check=False, cwd=scratch
        )
        return (ended.stdout + ended.stderr).splitlines()
    result = cli.run(*_arguments(text, scratch))
    lines = (result.out + result.err).splitlines()
    return lines[:1] if head else lines


def _arguments(text: str, scratch: Path) -> list[str]:
    arguments = [each.replace("/var/", f"{scratch}/var/") for each in shlex.split(text)[1:]]
    if arguments[0] == "ship" and "--once" not in arguments:
        arguments.append("--once")  # The page shows how it is started, not how it is stopped.
    return arguments


def _run_endless(command: Command, scratch: Path) -> list[str]:
    arguments = shlex.split(command.text)[1:]
    if arguments[0] == "console":
        arguments += ["--port", "0"]  # That of the page may be in use.
    process = Process(*arguments, cwd=scratch)
    try:
        lines = [process.line().rstrip("\n") for _ in command.shown]
        process.signal(signal.SIGTERM)
        assert process.end().code in (os.EX_OK, 128 + signal.SIGTERM)
        return lines
    finally:
        process.kill()


def _compare(page: str, command: Command, printed: list[str]) -> None:
    shown, actual = _masked(list(command.shown)), _masked(printed)
    if not shown and command.text.startswith("jetspark ship"):
        return  # The page is about its options.
    pattern = "\n".join(r"(?s:.*?)" if line == "..." else re.escape(line) for line in shown)
    if re.fullmatch(pattern, "\n".join(actual)) is None:
        difference = "\n".join(difflib.unified_diff(shown, actual, "the page", "the command", lineterm=""))
        raise AssertionError(f"{page}: $ {command.text}\n{difference}")
