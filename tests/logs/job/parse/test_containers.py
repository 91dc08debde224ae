"""Lines inside of what container runtimes write: unwrapped, joined, and refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from tests.logs.job.support import parsed

AT = "2026-01-31T12:00:00.123456789Z"
PARTIAL = "a partial line: its end is not in the message"


def test_lines_of_cri_containers_are_unwrapped_and_their_parts_joined(
    session: SparkSession, tmp_path: Path
) -> None:
    lines = [
        f"{AT} stdout F hello  world ",
        "2026-01-31T13:00:00+01:00 stderr F:x:y warned",
        f"{AT} stdout F ",
        f"{AT} stdout F",
        f"{AT} stdout P one \n{AT} stdout P two\n{AT} stdout F three\n",
        f"{AT} stdout F a stack\n{AT} stdout F   at trace",
        f"{AT} stdout P one",
        f"{AT} stdout F one\n{AT} stdout P two",
        f"{AT} stdout P one\n{AT} stderr F two",
        f"{AT} stdout X text",
        "yesterday stdout F text",
        "text",
        "",
        f"{AT} stdout F " + "x" * 300_000,
    ]
    rows = parsed(session, tmp_path, 'format = "raw"\ncontainer = "cri"', lines)
    assert [row._reason for row in rows] == [
        *[None] * 6,
        *[PARTIAL] * 2,
        *["not a line of a CRI container"] * 2,
        "invalid time of the container",
        *["not a line of a CRI container"] * 2,
        None,
    ]
    assert [row.line for row in rows[:6]] == [
        *("hello  world ", "warned", "", "", "one twothree", "a stack\n  at trace")
    ]
    assert [row.output for row in rows[:2]] == ["stdout", "stderr"]
    assert rows[0].time.astimezone(UTC) == datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    assert rows[1].time.astimezone(UTC) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert bytes(rows[6]._data) == lines[6].encode()


def test_lines_of_docker_containers_are_unwrapped_before_the_format_parses_them(
    session: SparkSession, tmp_path: Path
) -> None:
    def wrapped(log: str, stream: str = "stdout") -> str:
        return f'{{"log":"{log}","stream":"{stream}","time":"{AT}"}}'

    lines = [
        wrapped(r"{\"code\": 7}\n", "stderr"),
        wrapped(r"{\"code\"") + "\n" + wrapped(r": 8}\n") + "\n",
        wrapped(r"{\"code\": 7}"),
        wrapped(r"{\"code\": 7}") + "\n" + wrapped(r"\n", "stderr"),
        wrapped(r"not JSON\n"),
        '{"code": 7}',
        wrapped(r"{\"code\": 7}\n") + "] and more",
        wrapped(r"{\"code\": 7}\n").replace(AT, "12:00"),
        "",
        "[]",
        "null",
    ]
    parse = 'format = "json"\ncontainer = "docker"\nfields = { code = "int" }\nkeep_line = true'
    rows = parsed(session, tmp_path, parse, lines)
    assert [row._reason for row in rows] == [
        *[None] * 2,
        PARTIAL,
        "not a line of a Docker container",
        "not a JSON object",
        *["not a line of a Docker container"] * 2,
        "invalid time of the container",
        *["not a line of a Docker container"] * 3,
    ]
    assert [(row.code, row.output, row.line) for row in rows[:2]] == [
        (7, "stderr", '{"code": 7}'),
        (8, "stdout", '{"code": 8}'),
    ]
    assert rows[0].time.astimezone(UTC) == datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
