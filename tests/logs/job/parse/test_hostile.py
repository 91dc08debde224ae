"""Lines that are made to stop a job: it goes on, and they become dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.logs.job.support import Pipes, assert_each_line_once, parsed

#: As long as the longest line of an agent. What takes quadratic time on it would not end.
LONG = 256 * 1024

LINES: dict[str, bytes] = {
    "nul": b"\x00",
    "nuls": b"\x00" * LONG,
    "not UTF-8": b"\xff\xfe\x80" * 100,
    "cut UTF-8": "\u20ac".encode()[:2],
    "mark": b"a\x01b\x02c",
    "letters": b"a" * LONG,
    "letters and a quote": b"a" * LONG + b'"',
    "quotes": b'"' * LONG,
    "odd quotes": b'"' * (LONG + 1),
    "backslashes": b'"' + b"\\" * LONG,
    "spaces": b" " * LONG,
    "line feeds": b"\n" * LONG,
    "separators": ("\u2028" * LONG).encode(),
    "commas": b"," * LONG,
    "equals": b"=" * LONG,
    "brackets": b"[" * LONG,
    "deep lists": b'{"a":' + b"[" * LONG + b"]" * LONG + b"}",
    "deep objects": b'{"a":' * LONG + b"1" + b"}" * LONG,
    "digits": b'{"a":' + b"1" * LONG + b"}",
    "exponent": b'{"a":1e999999999}',
    "surrogate": b'{"a":"\\ud800","b":{"a":{}}}',
    "duplicate keys": b'{"a":1,"a":"x","A":2}',
    "two values": b'{"a":1},{"a":2}',
    "injected": b'{"a":1}],"lines":[{"a":2}',
    "injected sooner": b'{"a":1}]} {"lines":[{"a":2}',
    "priority": b"<99999999999>1 - - - - - -",
    "structured data": b"<34>1 - - - - - " + b'[a b="' * LONG,
    "structured quotes": b'<34>1 - - - - - [a b="' + b'\\"' * LONG,
    "far time": b"<34>1 +999999999-01-31T12:00:00Z host app - - - text",
    "parts": b"2026-01-31T12:00:00Z stdout P \n" * 1000,
    "docker": b'{"log":"x\\n","stream":"stdout","time":"2026-01-31T12:00:00Z"}' + b"]" * LONG,
}

#: By format: the keys of the section, a good line, and which of the lines above parse.
FORMATS: dict[str, tuple[str, str, set[str]]] = {
    "combined": ("", '::1 - - [31/Jan/2026:12:00:00 +0000] "-" 408 - "-" "-"', set()),
    "csv": ('fields = { a = "int", b = "string" }', "1,x", set()),
    "grok": ("pattern = '%{DATA:a} %{DATA:b} %{INT:n:int}'", "a b 7", set()),
    "json": (
        'fields = { a = "int", "b.a" = "string" }',
        '{"a": 1, "b": {"a": "x"}}',
        set(),
    ),
    "logfmt": ('time = "t"\nfields = { t = "string" }', "t=2026-01-31T12:00:00Z", set()),
    "regex": ("pattern = '(?<a>.*) (?<b>.*)!'", "a b!", set()),
    "syslog": ("", "Jan 31 10:00:00 web1 app: text", {"parts"}),
    "raw": ('container = "cri"', "2026-01-31T12:00:00Z stdout F text", set()),
    "raw ": ('container = "docker"', '{"log":"x\\n","stream":"stdout","time":"2026-01-31T12:00:00Z"}', set()),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_goes_on_after_any_line(session: SparkSession, tmp_path: Path, name: str) -> None:
    keys, good, expected = FORMATS[name]
    rows = parsed(session, tmp_path, f'format = "{name.strip()}"\n{keys}', [*LINES.values(), good])
    *reasons, last = [row._reason for row in rows]
    assert {line for line, reason in zip(LINES, reasons, strict=True) if reason is None} == expected
    assert last is None
    assert [bytes(row._data) for row in rows] == [*LINES.values(), good.encode()]


def test_a_job_goes_on_after_lines_that_take_long_or_are_not_text(pipes: Pipes) -> None:
    lines: list[str | bytes] = [
        "a b!",
        b"\x00\xff",
        " " * 10_000,  # Two repetitions divide it in fifty million ways.
        b"\xf0\x9f" * LONG,
        "[" * LONG,
        "c d!",
    ]
    pipes.publish(lines)
    parse = "[parse]\nformat = \"regex\"\npattern = '(?<a>.*) (?<b>.*)!'\n"
    pipes.run(pipes.file(parse=parse))
    assert_each_line_once(pipes, len(lines))
    assert sorted(row.b for row in pipes.table().collect()) == ["b", "d"]
    told = {
        letter.headers["Dead-Letter-Sequence"]: letter.headers["Dead-Letter-Reason"]
        for letter in pipes.letters()
    }
    assert told == {
        "2": "parse.pattern does not match",
        "3": "parse.pattern does not match",
        "4": "the line is too long for parse.pattern",
        "5": "the line is too long for parse.pattern",
    }
