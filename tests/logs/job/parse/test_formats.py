"""Every format on lines that are right and lines that are not: what comes out, and the reason."""

from __future__ import annotations

import gzip
import random
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jetspark.errors import UsageError
from jetspark.logs.job.grok import LIBRARY, expand
from jetspark.logs.job.parse.decode import unpack
from jetspark.logs.job.parse.times import TIME_PARTS, time_of
from jetspark.logs.job.patterns import read_pattern
from tests.logs.job.support import RECEIVED, config_of, parsed

COMBINED = (
    '192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=\\"c\\" HTTP/1.0" 200 2326 '
    '"http://example.com/start" "Mozilla/4.08 [en]"'
)

at = partial(datetime, tzinfo=UTC)


def utc(time: datetime) -> datetime:
    """Spark hands out local times."""
    return time.astimezone(UTC)


def line_at(time: str) -> str:
    return f'10.0.0.1 - - [{time}] "GET / HTTP/1.1" 200 1 "-" "-"'


def test_combined_lines_become_columns_and_others_get_a_reason(session: SparkSession, tmp_path: Path) -> None:
    lines = [
        COMBINED,
        '::1 - - [31/Jan/2026:12:00:00 +0000] "-" 408 - "-" "-"',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "GET /common HTTP/2" 304 0',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "\\x16\\x03\\x01" 400 166 "-" "-"',
        "poison",
        "",
        '10.0.0.1 - - [31/Foo/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 2000 1 "-" "-"',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 99999999999999999999 "-" "-"',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "GET /\x01 HTTP/1.1" 200 1 "-" "-"',
        '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "' + "\\x" * 100_000 + '" 400 1 "-" "-"',
        '"' * 100_000,
        # Spark's own functions raise for such years, and once they did, the batch would fail for ever.
        *(line_at(f"10/Oct/{year}:00:00:00 +0000") for year in ("+294248", "-294248", "+999999999")),
        *(line_at(time) for time in ("10/Oct/0000:00:00:00 +0000", "31/Dec/9999:23:59:59 -0100")),
        line_at("01/Jan/0001:00:00:00 +0000"),
    ]
    rows = parsed(session, tmp_path, 'format = "combined"', lines, text_of="time")
    assert [row._reason for row in rows] == [
        *[None] * 4,
        *["not a line of format combined"] * 2,
        "missing or invalid time",
        "not a line of format combined",
        "invalid number of bytes",
        "not a line of format combined",
        None,
        *["not a line of format combined"] * 4,
        *["missing or invalid time"] * 2,
        None,
    ]
    first = rows[0]
    assert rows[-1].time == "0001-01-01 00:00:00"
    assert (first.remote_addr, first.user, first.status, first.bytes) == ("192.0.2.7", "frank", 200, 2326)
    assert (first.method, first.path, first.protocol) == ("GET", '/a?b=\\"c\\"', "HTTP/1.0")
    assert (first.referer, first.user_agent) == ("http://example.com/start", "Mozilla/4.08 [en]")
    assert first.time == "2000-10-10 20:55:36"
    assert (rows[1].method, rows[1].bytes, rows[1].request, rows[1].user) == (None, 0, None, None)
    assert (rows[2].path, rows[2].referer) == ("/common", None)
    assert (rows[3].method, rows[3].request) == (None, "\\x16\\x03\\x01")
    assert (first.host, first.stream, first.sequence, first.cut) == ("web1", "LOGS", 1, False)
    assert bytes(rows[4]._data) == b"poison"


def test_parts_of_requests(session: SparkSession, tmp_path: Path) -> None:
    requests = {
        "GET /x HTTP/1.1": ("GET", "/x", "HTTP/1.1"),
        "GET /x": ("GET", "/x", None),
        'PUT \\"\\" HTTP/2': ("PUT", '\\"\\"', "HTTP/2"),
        "GET  HTTP/1.1": (None, None, None),
        "GET ": (None, None, None),
        "GET /x HTTP/1.1 ": (None, None, None),
        "GET /x y HTTP/1.1": (None, None, None),
        "GET /x\\ y": (None, None, None),
        "get /x HTTP/1.1": (None, None, None),
        " GET /x": (None, None, None),
        "": (None, None, None),
    }
    start = "10.0.0.1 - - [31/Jan/2026:12:00:00 +0000]"
    rows = parsed(session, tmp_path, 'format = "combined"', [f'{start} "{each}" 200 1' for each in requests])
    assert [row._reason for row in rows] == [None] * len(rows)
    assert [(row.method, row.path, row.protocol) for row in rows] == list(requests.values())
    assert [row.request or "" for row in rows] == list(requests)


def test_times_of_access_logs_are_those_that_spark_reads(session: SparkSession) -> None:
    chance = random.Random(7)
    months = (
        "Jan",
        "feb",
        "MAR",
        "Apr",
        "May",
        "Jun",
        "Jul",
        "Aug",
        "Sep",
        "Oct",
        "Nov",
        "Dec",
        "anF",
        "Foo",
    )

    def text() -> str:
        day, hour, minute = chance.randrange(34), chance.randrange(26), chance.randrange(62)
        year = chance.choice([1, 1582, 1900, 1970, 2000, 2024, 2026, 9999])
        zone = chance.choice(
            ["+0000", "-0000", "-0730", "+1800", "-1800", "+1801", "-1900", "+0060", "+0145"]
        )
        clock = f"{hour:02}:{minute:02}:{chance.randrange(62):02}"
        return f"{day:02}/{chance.choice(months)}/{year:04}:{clock} {zone}"

    frame = session.createDataFrame([(text(),) for _ in range(3000)], "text string")
    pattern = r"(\d+)/(\w+)/(\d+):(\d+):(\d+):(\d+) (.+)"
    parts = [F.regexp_extract("text", pattern, index).alias(name) for index, name in enumerate(TIME_PARTS, 1)]
    frame = frame.select("text", *parts)
    sparks = F.try_to_timestamp("text", F.lit("dd/MMM/yyyy:HH:mm:ss Z"))
    rows = frame.select(
        "text", F.unix_micros(time_of("")).alias("ours"), F.unix_micros(sparks).alias("sparks")
    )
    found = rows.collect()
    assert [row for row in found if row.ours != row.sparks] == []
    assert 500 < sum(row.ours is not None for row in found) < 2500


def test_json_lines_must_be_one_object_with_the_fields_that_are_told(
    session: SparkSession, tmp_path: Path
) -> None:
    parse = (
        'format = "json"\ntime = "at"\n'
        'fields = { at = "timestamp", level = "string", code = "int", line = "string" }'
    )
    lines = [
        '{"at": "2026-01-31T12:00:00Z", "level": "info", "code": 7, "other": [1]}',
        ' {"at": "2026-01-31T13:00:00+01:00"} ',
        '{"at": "2026-01-31T12:00:00Z", "code": "seven"}',
        '{"at": "2026-01-31T12:00:00Z"} and more',
        '{"at": "2026-01-31T12:00:00Z"}{"at": "2026-01-31T12:00:00Z"}',
        '[{"at": "2026-01-31T12:00:00Z"}]',
        '{"at": "2026-01-31T12:00:00Z"',
        "null",
        "",
        '{"level": "info"}',
        '{"at": "2026-01-31T12:00:00Z"}] and more',
        '{"at": "2026-01-31T12:00:00Z"}, 0] and more',
        # Without a date it would be of today, which is another day when the batch is done again.
        '{"at": "12:30:00"}',
        '{"at": "T12:30:00"}',
        '{"at": 1769860800}',
        '{"at": "2026-01-31T12:00:00Z", "line": "their own", "code": null}',
    ]
    rows = parsed(session, tmp_path, parse, lines)
    assert [row._reason for row in rows] == [
        None,
        None,
        "fields or types differ from parse.fields",
        *["not a JSON object"] * 6,
        "at is not a time",
        *["not a JSON object"] * 2,
        *["fields or types differ from parse.fields"] * 3,
        None,
    ]
    assert (rows[0].line, rows[-1].line) == (None, "their own")
    assert (rows[0].level, rows[0].code, utc(rows[0].time)) == ("info", 7, RECEIVED)
    assert (rows[1].level, utc(rows[1].time)) == (None, RECEIVED)


def test_logfmt_lines_have_quotes_types_and_keys_without_values(
    session: SparkSession, tmp_path: Path
) -> None:
    parse = (
        'format = "logfmt"\ntime = "ts"\n[parse.fields]\nts = "string"\nmsg = "string"\ntook = "double"\n'
        'ok = "boolean"\ndebug = "string"\nline = "int"\n'
    )
    lines = [
        'ts=2026-01-31T12:00:00Z msg="a \\"b\\" \\\\ c" took=1.5 ok=true debug',
        "ts=2026-01-31T12:00:00Z took= msg=x msg=y",
        "ts=2026-01-31T12:00:00Z took=long",
        'ts=2026-01-31T12:00:00Z msg="open',
        "=x",
        "",
        "ts=yesterday",
        "a=" + "b" * 200_000 + " ts=2026-01-31T12:00:00Z",
        "msg=/a?b=c line=7 ts=2026-01-31T12:00:00Z sig=abc== ok=false",
        "ts=12:30:00",
        "ts=+294248-01-31T12:00:00Z",
        " \tmsg=debug debug=7  ts=2026-01-31T12:00:00Z\t",
        'ts=2026-01-31T12:00:00Z msg="a"b',
        "ts=2026-01-31T12:00:00Z msg=a\x01b",
    ]
    rows = parsed(session, tmp_path, parse, lines)
    assert [row._reason for row in rows] == [
        None,
        None,
        "took is not of type double",
        "not logfmt",
        "not logfmt",
        "not logfmt",
        "ts is not a time",
        None,
        None,
        *["ts is not a time"] * 2,
        None,
        *["not logfmt"] * 2,
    ]
    assert (rows[11].msg, rows[11].debug) == ("debug", "7")
    assert (rows[8].msg, rows[8].line, rows[8].ok) == ("/a?b=c", 7, False)
    assert (rows[0].msg, rows[0].took, rows[0].ok, rows[0].debug) == ('a "b" \\ c', 1.5, True, None)
    assert (rows[1].msg, rows[1].took) == ("x", None)


def test_syslog_lines_are_read_in_the_old_way_and_in_the_new(session: SparkSession, tmp_path: Path) -> None:
    lines = [
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - 'su root' failed",
        '<165>1 2003-08-24T05:14:15.000003-07:00 host myproc 8710 - [a@1 b="]"][c@2 d="\\]"] \ufeffhello',
        "<0>1 - - - - - -",
        "<34>Jan 31 11:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
        "<13>Feb  5 17:32:18 10.0.0.99 sshd[4123]: Failed",
        "<13>Feb 29 17:32:18 10.0.0.99 sshd[4123]: Leap",
        "<192>Jan 31 11:14:15 host app: priority",
        "<34>1 yesterday host app - - - text",
        "<34>Foo 31 11:14:15 host app: text",
        "no priority",
        "",
        "<34>1 T12:30:00 host app - - - of today",
        "<34>1 +99999-01-31T12:00:00Z host app - - - text",
        "<34>1 2026-01-31T12:00:00Z host app - - - a\u2028b\rc\nd",
        "<34>Jan 31 11:14:15 host app: a\u2028b\rc\nd",
    ]
    rows = parsed(session, tmp_path, 'format = "syslog"', lines)
    assert [row._reason for row in rows] == [
        *[None] * 6,
        "invalid priority",
        "missing or invalid time",
        "missing or invalid time",
        "not a syslog line",
        "not a syslog line",
        *["missing or invalid time"] * 2,
        *[None] * 2,
    ]
    assert {row.message for row in rows[-2:]} == {"a\u2028b\rc\nd"}
    new, structured, empty, old, last_year, leap = rows[:6]
    assert (new.facility, new.severity, new.hostname, new.app) == (4, 2, "mymachine.example.com", "su")
    assert (new.process, new.message_id, new.message) == (None, "ID47", "'su root' failed")
    assert utc(new.time) == at(2003, 10, 11, 22, 14, 15, 3000)
    assert (structured.process, structured.message) == ("8710", "hello")
    assert structured.structured_data == '[a@1 b="]"][c@2 d="\\]"]'
    assert (utc(empty.time), empty.hostname, empty.facility, empty.message) == (RECEIVED, None, 0, "")
    assert (old.app, old.process, utc(old.time)) == ("su", None, at(2026, 1, 31, 11, 14, 15))
    assert (last_year.process, utc(last_year.time)) == ("4123", at(2025, 2, 5, 17, 32, 18))
    assert utc(leap.time) == at(2024, 2, 29, 17, 32, 18)


def test_syslog_lines_are_read_as_they_are_in_files(session: SparkSession, tmp_path: Path) -> None:
    lines = [
        "Jan 31 10:00:00 web1 sshd[1]: Accepted publickey for root",
        "2026-01-30T10:00:01.123456+01:00 web1 systemd[1]: Started x.",
        "<30>2026-01-30T10:00:01.123456789Z web1 systemd-logind: New session",
        "2026-01-30T10:00:01+0000 web1 kernel: [ 12.345] eth0: up",
        "Jan  1 00:00:00 web1 postfix/smtpd[77]: a\nb",
        "2026-13-30T10:00:01Z web1 app: text",
        "2026-01-30 10:00:01 web1 app: text",
        "2026-01-30T10:00:01Z web1",
        "<999>Jan 31 10:00:00 web1 app: text",
        "Jan 31 10:00:00 web1 app: " + "x[" * 100_000,
    ]
    rows = parsed(session, tmp_path, 'format = "syslog"', lines)
    assert [row._reason for row in rows] == [
        *[None] * 5,
        "missing or invalid time",
        *["not a syslog line"] * 2,
        "invalid priority",
        None,
    ]
    shown = [(row.facility, row.severity, row.hostname, row.app, row.process) for row in rows[:5]]
    assert shown == [
        (None, None, "web1", "sshd", "1"),
        (None, None, "web1", "systemd", "1"),
        (3, 6, "web1", "systemd-logind", None),
        (None, None, "web1", "kernel", None),
        (None, None, "web1", "postfix/smtpd", "77"),
    ]
    assert [utc(row.time) for row in rows[:5]] == [
        at(2026, 1, 31, 10),
        at(2026, 1, 30, 9, 0, 1, 123456),
        at(2026, 1, 30, 10, 0, 1, 123456),
        at(2026, 1, 30, 10, 0, 1),
        at(2026, 1, 1),
    ]
    assert (rows[3].message, rows[4].message) == ("[ 12.345] eth0: up", "a\nb")


def test_json_fields_are_inside_of_others_or_have_dots_in_their_names(
    session: SparkSession, tmp_path: Path
) -> None:
    parse = (
        'format = "json"\ntime = "@timestamp"\n[parse.fields]\n"@timestamp" = "string"\n'
        '"http.status" = "int"\n"http.request.path" = "string"\nhttp_version = "string"\n'
        '"log.level" = "string"\nlabels = "string"\n'
    )
    start = '{"@timestamp": "2026-01-31T12:00:00Z"'
    lines = [
        start + ', "http": {"status": 200, "request": {"path": "/a", "x": 1}}, "labels": {"a": [1, 2]}}',
        start + ', "http.status": 201, "http": {"status": 200}, "log.level": "info", "http_version": "2"}',
        start + ', "http": null, "log": {"level": "warn"}}',
        start + ', "http": "text"}',
        start + ', "http": {"status": "many"}}',
        start + ', "http": [{"status": 200}]}',
        '{"http": {"status": 200}}',
        '{"a":' * 3000 + "1" + "}" * 3000,
    ]
    rows = parsed(session, tmp_path, parse, lines)
    differ = "fields or types differ from parse.fields"
    assert [row._reason for row in rows[:7]] == [*[None] * 3, *[differ] * 3, "@timestamp is not a time"]
    assert rows[7]._reason is not None
    first, dotted, null = rows[:3]
    assert (first.http_status, first.http_request_path, first.labels) == (200, "/a", '{"a":[1,2]}')
    assert (dotted.http_status, dotted.log_level, dotted.http_version) == (201, "info", "2")
    assert (null.http_status, null.log_level, utc(null.time)) == (None, "warn", RECEIVED)


def test_csv_values_are_in_order_or_named_by_a_header(session: SparkSession, tmp_path: Path) -> None:
    parse = 'format = "csv"\ntime = "at"\nfields = { at = "timestamp", text = "string", n = "int" }'
    lines = [
        '2026-01-31T12:00:00Z,"a, ""b"" \nc",7',
        "2026-01-31T12:00:00Z,,\r",
        '2026-01-31T12:00:00Z,"",7',
        "2026-01-31T12:00:00Z,a",
        "2026-01-31T12:00:00Z,a,7,8",
        '2026-01-31T12:00:00Z,"a,7',
        '2026-01-31T12:00:00Z,a"b,7',
        '2026-01-31T12:00:00Z,"a"b,7',
        "2026-01-31T12:00:00Z,a,x",
        "yesterday,a,7",
        ",a,7",
        "",
        "2026-01-31T12:00:00Z,a,7\n2026-01-31T12:00:00Z,b,8",
        '2026-01-31T12:00:00Z,"' + '""' * 100_000 + '",7',
    ]
    rows = parsed(session, tmp_path, parse, lines)
    broken = "not CSV: a quote is inside of a value, or not closed"
    assert [row._reason for row in rows] == [
        *[None] * 3,
        *["not 3 values"] * 2,
        *[broken] * 3,
        "n is not of type int",
        "at is not of type timestamp",
        "at is not a time",
        "not 3 values",
        broken,
        None,
    ]
    assert [(row.text, row.n) for row in rows[:3]] == [('a, "b" \nc', 7), (None, None), (None, 7)]
    assert rows[-1].text == '"' * 100_000

    parse = 'format = "csv"\nseparator = "|"\nquote = ""\nheader = "Id|User Name|n"\n'
    parse += 'fields = { n = "bigint", "User Name" = "string" }'
    lines = ["Id|User Name|n\r", '1|"x|2', "\ufeffId|User Name|n", "1|x", "id|User Name|n"]
    rows = parsed(session, tmp_path, parse, lines)
    assert [(row.sequence, row._reason) for row in rows] == [
        (2, None),
        (4, "not 3 values"),
        (5, "n is not of type bigint"),
    ]
    assert (rows[0].n, rows[0].User_Name, utc(rows[0].time)) == (2, '"x', RECEIVED)


def test_csv_headers_that_name_the_fields_are_skipped(session: SparkSession, tmp_path: Path) -> None:
    parse = 'format = "csv"\nheader = true\nfields = { id = "int", "User Name" = "string" }'
    lines: list[str | bytes] = [
        "id,User Name",
        '"id","User Name"\r',
        "1,x",
        "id,User",
        b"\xff",
        "User Name,id",
    ]
    rows = parsed(session, tmp_path, parse, lines)
    assert [(row.sequence, row._reason) for row in rows] == [
        (3, None),
        (4, "id is not of type int"),
        (5, "not 2 values"),
        (6, "id is not of type int"),
    ]
    headers = {"Content-Encoding": "gzip"}
    source = "\ncompressed = true"
    lines = [gzip.compress(b"id,User Name"), gzip.compress(b"1,x"), b"not packed"]
    rows = parsed(session, tmp_path, parse, lines, source=source, headers=headers)
    assert [(row.sequence, row._reason) for row in rows] == [(2, None), (3, "invalid compressed data")]


def test_csv_lines_may_have_many_values(session: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(500)]
    parse = f'format = "csv"\nheader = "{",".join(names)}"\nfields = {{ c0 = "int", c499 = "string" }}'
    lines = [",".join(names), ",".join(["7"] * 499 + ['"a ""b"""']), ",".join("7" * 499)]
    rows = parsed(session, tmp_path, parse, lines)
    assert [(row.c0, row.c499, row._reason) for row in rows] == [
        (7, 'a "b"', None),
        (None, None, "not 500 values"),
    ]


def test_grok_patterns_give_columns_with_types(session: SparkSession, tmp_path: Path) -> None:
    parse = (
        'format = "grok"\ntime = "at"\ntime_format = "dd/MMM/yyyy:HH:mm:ss Z"\n'
        "pattern = '%{IPORHOST:client} %{ID:id} \\[%{HTTPDATE:at}\\] %{QS:agent} %{NUMBER:took:double}"
        "(?: %{GREEDYDATA:rest})?'\npatterns = { ID = 'r-%{POSINT}' }"
    )
    at_noon = "[31/Jan/2026:12:00:00 +0000]"
    lines = [
        f'192.0.2.7 r-12 {at_noon} "a \\" b" 1.5',
        f'2001:db8::7 r-12 {at_noon} "-" 2 and more',
        f'web1.example.com r-12 {at_noon} "-" -3e2',
        f'web1 r-0 {at_noon} "-" 1',
        'web1 r-1 [31/Feb/2026:12:00:00 +0000] "-" 1',
        "",
    ]
    rows = parsed(session, tmp_path, parse, lines)
    assert [row._reason for row in rows] == [
        *[None] * 3,
        "parse.pattern does not match",
        "at is not a time",
        "parse.pattern does not match",
    ]
    assert [(row.client, row.took, row.rest) for row in rows[:3]] == [
        ("192.0.2.7", 1.5, None),
        ("2001:db8::7", 2.0, "and more"),
        ("web1.example.com", -300.0, None),
    ]
    assert (rows[0].id, rows[0].agent, utc(rows[0].time)) == ("r-12", '"a \\" b"', RECEIVED)


def test_java_compiles_every_grok_pattern(session: SparkSession) -> None:
    assert session._jvm is not None
    for name in LIBRARY:
        session._jvm.java.util.regex.Pattern.compile(read_pattern(expand(f"%{{{name}:a}}", {}).text).text)


def test_a_pattern_gives_columns_by_its_groups(session: SparkSession, tmp_path: Path) -> None:
    parse = (
        'format = "regex"\ntime = "day"\ntime_format = "dd.MM.yyyy"\n'
        "pattern = '(?P<day>\\S+) \\[(?<log_level>[A-Z]+)\\](?: (?<code>\\w+))?(?: (?P=code)!)?'\n"
        'fields = { code = "int" }'
    )
    lines = [
        "31.01.2026 [INFO] 7 7!",
        "31.01.2026 [INFO]",
        "31.01.2026 [INFO] x",
        "31.13.2026 [INFO]",
        "else",
        "31.01.+294248 [INFO]",
        "31.01.-294248 [INFO]",
        "31.01.2026 [" + "A" * (64 << 10) + "]",
    ]
    rows = parsed(session, tmp_path, parse, lines)
    assert [row._reason for row in rows] == [
        None,
        None,
        "code is not of type int",
        "day is not a time",
        "parse.pattern does not match",
        *["day is not a time"] * 2,
        "the line is too long for parse.pattern",
    ]
    assert (rows[0].log_level, rows[0].code, utc(rows[0].time)) == ("INFO", 7, at(2026, 1, 31))
    assert rows[1].code is None


def test_raw_lines_always_parse_and_headers_tell_where_they_are_from(
    session: SparkSession, tmp_path: Path
) -> None:
    headers = {
        "jetspark-host": "db",
        "Jetspark-File": "/var/log/x",
        "Jetspark-Offset": "12",
        "Jetspark-Cut": "true",
    }
    row, invalid = parsed(session, tmp_path, 'format = "raw"', ["any", b"\xff\xfe"], headers=headers)
    assert (row.line, row.host, row.file, row.line_offset, row.cut) == (
        "any",
        "db",
        "/var/log/x",
        12,
        True,
    )
    assert (utc(row.time), invalid.line, bytes(invalid._data)) == (RECEIVED, "\ufffd\ufffd", b"\xff\xfe")
    odd = parsed(session, tmp_path, 'format = "raw"', ["any"], headers={"Jetspark-Offset": "x"})[0]
    assert (odd.host, odd.line_offset, odd._reason) == ("web1", None, None)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_compressed_lines_are_read_if_the_file_says_so(
    session: SparkSession, tmp_path: Path, encoding: str
) -> None:
    packed = gzip.compress(b"a line") if encoding == "gzip" else pa.compress(b"a line", "zstd", asbytes=True)
    bomb = bytes((1 << 20) + 1)
    bomb = gzip.compress(bomb) if encoding == "gzip" else pa.compress(bomb, "zstd", asbytes=True)
    lines, headers = [packed, b"not packed", bomb, packed[:-4]], {"Content-Encoding": encoding.upper()}
    source = "\ncompressed = true"
    rows = parsed(session, tmp_path, 'format = "raw"', lines, source=source, headers=headers)
    assert [row._reason for row in rows] == [None, *["invalid compressed data"] * 3]
    assert (rows[0].line, bytes(rows[0]._data)) == ("a line", packed)
    plain = parsed(session, tmp_path, 'format = "raw"', ["a line"], source=source)
    assert [(row.line, row._reason) for row in plain] == [("a line", None)]
    unread = parsed(session, tmp_path, 'format = "raw"', lines, headers=headers)
    assert {row._reason for row in unread} == {"the line is compressed, and source.compressed is not set"}


def test_lines_that_become_very_large_are_handed_on_in_pieces() -> None:
    bomb = gzip.compress(bytes(1 << 20))
    columns = {"data": [bomb] * 130 + [b"plain"], "_compression": ["gzip"] * 130 + [None]}
    pieces = list(unpack(iter([pa.RecordBatch.from_pydict(columns)])))
    assert [piece.num_rows for piece in pieces] == [64, 64, 3]
    plain = [each.as_py() for piece in pieces for each in piece.column("_plain")]
    assert plain == [bytes(1 << 20)] * 130 + [b"plain"]
    assert [each.as_py() for piece in pieces for each in piece.column("data")] == columns["data"]


def test_lines_from_the_future_are_not_counted(session: SparkSession, tmp_path: Path) -> None:
    lines = [line_at(f"{time}:12:00:00 +0000") for time in ("01/Feb/2026", "02/Feb/2026", "31/Jan/2099")]
    counts = '[counts]\nwindow = "1 minute"\nwatermark = "1 minute"'
    reasons = [row._reason for row in parsed(session, tmp_path, 'format = "combined"', lines, more=counts)]
    assert reasons == [None, *["the time is in the future"] * 2]


def test_what_only_spark_can_judge_is_told_with_its_line(session: SparkSession, tmp_path: Path) -> None:
    for parse, told in (
        (
            "format = 'regex'\npattern = '(?<a>[^[]+)'",
            "parse.pattern: invalid Java regular expression: Uncl",
        ),
        (
            'format = "json"\nfields = { a = "string" }\ntime = "a"\ntime_format = "yyyy-MM-ddTHH"',
            "parse.time_format: 'yyyy-MM-ddTHH' is not a Spark datetime pattern",
        ),
    ):
        with pytest.raises(UsageError, match=rf"pipeline\.toml, line \d+, {re.escape(told)}"):
            parsed(session, tmp_path, parse, ["x"])


def test_derived_columns_are_sql_and_mistakes_in_them_are_told_with_their_line(
    session: SparkSession, tmp_path: Path
) -> None:
    more = '[columns]\nsize = "length(line)"\nhalf = "size / 0"\nday = "date_trunc(\'day\', time)"'
    row = parsed(session, tmp_path, 'format = "raw"', ["four"], more=more)[0]
    assert (row.size, row.half, utc(row.day)) == (4, None, at(2026, 1, 31))
    for wrong, told in (
        ('x = "lenth(line)"', "lenth"),
        ('x = "nothing + 1"', "nothing"),
        ('x = "1 +"', "PARSE_SYNTAX_ERROR"),
        ('x = "rand()"', "must be deterministic"),
        ("x = \"explode(split(line, ' '))\"", "must give one value for each line"),
        ('x = "row_number() over (order by time)"', "must give one value for each line"),
    ):
        with pytest.raises(UsageError, match=r"pipeline\.toml, line 18, columns\.x: .*" + told):
            parsed(session, tmp_path, 'format = "raw"', ["x"], more=f"\n[columns]\n{wrong}")
    assert config_of(tmp_path, 'format = "raw"')[0].columns == {}
