"""`pipeline.toml`: what is accepted, and the line and key of every mistake. Without Spark."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from jetspark.errors import UsageError
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.patterns import far_year, read_pattern
from jetspark.logs.toml_lines import line_of
from tests.support.cases import for_each

WHOLE = """\
name = "access"
checkpoint = "state/checkpoint"
trigger = "10 seconds"

[source]
servers = ["nats://127.0.0.1:4222", "nats://127.0.0.1:4223"]
stream = ["LOGS", "MORE-*"]
subjects = ["logs.>"]
start = { LOGS = 12 }
max_messages_per_trigger = 1000

[parse]
format = "combined"

[columns]
minute = "date_trunc('minute', time)"

[counts]
window = "1 minute"
watermark = "2 minutes"
by = ["host", "status", "minute"]

[sink]
format = "parquet"
path = "table"

[dead_letters]
subject = "dead.lines"

[spark]
master = "local[4]"
conf = { "spark.driver.memory" = "1g" }
"""


def written(place: Path, text: str) -> Path:
    file = place / "pipeline.toml"
    file.write_text(text)
    return file


def test_the_job_for_the_journal_is_as_its_page_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "ship.md").read_text()
    (parse,) = re.findall(r"```toml\n(\[parse\].*?)```", page, re.DOTALL)
    text = WHOLE.replace('[parse]\nformat = "combined"\n', parse).replace('"status", ', '"PRIORITY", ')
    config, _ = read_config(written(tmp_path, text))
    assert config.line_columns == ("MESSAGE", "PRIORITY", "SYSTEMD_UNIT")


def test_a_file_is_read_with_types_and_defaults(tmp_path: Path) -> None:
    config, _ = read_config(written(tmp_path, WHOLE))
    assert config.source.options() == {
        "servers": "nats://127.0.0.1:4222,nats://127.0.0.1:4223",
        "stream": "LOGS,MORE-*",
        "subjects": "logs.>",
        "startingPosition": '{"LOGS":12}',
        "maxMessagesPerTrigger": "1000",
        "failOnDataLoss": "true",
    }
    assert config.written_columns == ("window_start", "window_end", "host", "status", "minute", "count")
    assert config.sink.partitions(config) == ("date", "host", "batch")
    assert config.row_columns[:2] == ("time", "remote_addr")
    assert config.spark.conf == {"spark.driver.memory": "1g"}
    conf = WHOLE.replace('"1g" }', '"1g", "spark.a" = 4, "spark.b" = false }')
    more = read_config(written(tmp_path, conf))[0].spark.conf
    assert more == {"spark.driver.memory": "1g", "spark.a": "4", "spark.b": "false"}


def test_paths_are_relative_to_the_file_and_urls_stay(tmp_path: Path) -> None:
    config, _ = read_config(written(tmp_path, WHOLE.replace('"table"', '"s3a://bucket/table"')))
    assert config.checkpoint == str(tmp_path / "state/checkpoint")
    assert config.sink.path == "s3a://bucket/table"


def test_servers_of_the_command_line_win_and_those_of_the_environment_stand_in(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    config, _ = read_config(file, servers="nats://other:1", default_servers="nats://environment:1")
    assert config.source.servers == "nats://other:1"
    assert (
        read_config(file, default_servers="nats://environment:1")[0].source.servers != "nats://environment:1"
    )
    without = written(
        tmp_path, "\n".join(line for line in WHOLE.splitlines() if not line.startswith("servers"))
    )
    assert (
        read_config(without, default_servers="nats://environment:1")[0].source.servers
        == "nats://environment:1"
    )


def test_a_key_of_the_console_is_accepted_for_every_sink(tmp_path: Path) -> None:
    config, _ = read_config(written(tmp_path, WHOLE.replace('"table"', '"table"\nrows = 5')))
    assert config.sink.format == "parquet"


def test_secrets_are_read_from_files_and_are_in_no_repr(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    text = WHOLE.replace("[parse]", 'user = "me"\npassword_file = "secret"\n\n[parse]')
    config, _ = read_config(written(tmp_path, text))
    assert config.source.options()["passwordFile"] == str(tmp_path / "secret")
    assert "hush" not in repr(config) + repr(config.source.options())


# What is replaced in the file above, by what, and what is told.
MISTAKES = {
    "unknown-key": ("trigger =", "triger =", "line 3, triger: unknown key"),
    "unknown-in-section": ("subjects =", "subject =", "line 8, source.subject: unknown key"),
    "missing": ('stream = ["LOGS", "MORE-*"]\n', "", "line 5, source.stream: is missing"),
    "missing-section": ("[dead_letters]", "[columns2]", "columns2: unknown key"),
    "type": ("max_messages_per_trigger = 1000", 'max_messages_per_trigger = "x"', "line 10, source.max_"),
    "number": ("trigger = 1000", "trigger = 0", "line 10, source.max_messages_per_trigger: must be a whole"),
    "name": ('"access"', '"a b"', "line 1, name: 'a b' must be letters"),
    "trigger": ("10 seconds", "soon", "line 3, trigger: 'soon' must be once, available-now, or like"),
    "server": (
        '"nats://127.0.0.1:4222"',
        '"nats://me:hush@host"',
        "line 6, source.servers: servers must not contain a",
    ),
    "stream": ('"LOGS", ', '"LO GS", ', "line 7, source.stream: "),
    "overlap": ('["logs.>"]', '["logs.>", "logs.a"]', "line 8, source.subjects: must be filters that do not"),
    "start": ("{ LOGS = 12 }", '"tomorrow"', "line 9, source.start: must be an ISO 8601 time"),
    "start-of-another": ("{ LOGS = 12 }", "{ OTHER = 12 }", "line 9, source.start: "),
    "no-file": (
        "[parse]",
        'credentials_file = "x"\n[parse]',
        "line 12, source.credentials_file: file ",
    ),
    "format": (
        '"combined"',
        '"combind"',
        "line 13, parse.format: unknown format 'combind'. There are: combined, csv",
    ),
    "fields": ('format = "combined"', 'format = "json"', "line 12, parse.fields: is missing: format json"),
    "needless": (
        '"combined"',
        '"combined"\ntime = "x"',
        "line 14, parse.time: unknown key",
    ),
    "kind": (
        '"combined"',
        '"json"\nfields = { a = "text" }',
        "line 14, parse.fields.a: 'text' is not one of",
    ),
    "no-pattern": ('"combined"', '"regex"', "line 12, parse.pattern: is missing"),
    "bad-pattern": ('"combined"', '"regex"\npattern = "(?<a>"', "line 14, parse.pattern: invalid regular"),
    "no-groups": ('"combined"', '"regex"\npattern = "(a)"', "line 14, parse.pattern: needs named groups"),
    "no-such-group": (
        '"combined"',
        '"regex"\npattern = "(?<a>.)"\nfields = { b = "int" }',
        "line 15, parse.fields.b: the pattern has no group",
    ),
    "no-such-time": (
        '"combined"',
        '"json"\nfields = { a = "string" }\ntime = "b"',
        "line 15, parse.time: field 'b' not found",
    ),
    "container": (
        '"combined"',
        '"raw"\ncontainer = "rkt"',
        "line 14, parse.container: invalid enum value 'rkt'",
    ),
    "container-column": (
        '"combined"',
        '"json"\ncontainer = "cri"\nfields = { output = "int" }',
        "line 15, parse.fields.output: there is already a column output",
    ),
    "same-column": (
        '"combined"',
        '"json"\nfields = { "a.b" = "int", a_b = "int" }',
        "line 14, parse.fields.a_b: there is already a column a_b",
    ),
    "field-inside-of-a-field": (
        '"combined"',
        '"json"\nfields = { a = "string", "a.b" = "int" }',
        "line 14, parse.fields.a.b: a is a field, and cannot contain fields",
    ),
    "field-around-fields": (
        '"combined"',
        '"json"\nfields = { "a.b" = "int", a = "string" }',
        "line 14, parse.fields.a: a contains fields, and cannot be a field",
    ),
    "fields-by-case": (
        '"combined"',
        '"json"\nfields = { "a.b" = "int", "A.c" = "int" }',
        "line 14, parse.fields.A.c: a and A differ in case only",
    ),
    "empty-part": ('"combined"', '"json"\nfields = { "a..b" = "int" }', "a part of the name is empty"),
    "separator": (
        '"combined"',
        '"csv"\nfields = { a = "int" }\nseparator = "||"',
        "line 15, parse.separator: '||' must be one character",
    ),
    "quote": (
        '"combined"',
        '"csv"\nfields = { a = "int" }\nquote = ","',
        "line 15, parse.quote: ',' must be another character, or empty",
    ),
    "not-in-the-header": (
        '"combined"',
        '"csv"\nfields = { a = "int" }\nheader = "b,c"',
        "line 14, parse.fields.a: is not in parse.header",
    ),
    "twice-in-the-header": (
        '"combined"',
        '"csv"\nfields = { a = "int" }\nheader = "a,c,a"',
        "line 14, parse.fields.a: is twice in parse.header",
    ),
    "header": (
        '"combined"',
        '"csv"\nfields = { a = "int" }\nheader = 1',
        "line 15, parse.header: expected bool | str, got int",
    ),
    "exponential-pattern": (
        '"combined"',
        '"regex"\npattern = "(?<a>(\\\\w+ ?)+)"',
        "line 14, parse.pattern: could take forever on some lines",
    ),
    "slow-pattern": (
        '"combined"',
        '"grok"\npattern = "%{DATA:a} %{DATA:b} %{GREEDYDATA:c}"',
        "line 14, parse.pattern: could take hours on some lines: several repetitions can match the same "
        "text. Exclude the text between them, such as `[^ ]*` or `%{NOTSPACE}` for `.*`; "
        "or set `max_line = 2345`",
    ),
    "long-lines": (
        '"combined"',
        '"grok"\npattern = "%{WORD:a}"\nmax_line = 65537',
        "line 15, parse.max_line: 65537 is not between 1 and 65536",
    ),
    "time-by-case": (
        '"combined"',
        '"csv"\nfields = { Time = "timestamp" }',
        'line 12, parse.time: the field Time would be lost. Set `time = "Time"`',
    ),
    "unknown-pattern": (
        '"combined"',
        '"grok"\npattern = "%{IPORHOTS:a}"',
        "line 14, parse.pattern: unknown name %{IPORHOTS}, did you mean IPORHOST?",
    ),
    "unknown-type-in-a-pattern": (
        '"combined"',
        '"grok"\npattern = "%{INT:a:long}"',
        "line 14, parse.pattern: the type 'long' of a is not one of string, int",
    ),
    "two-types": (
        '"combined"',
        '"grok"\npattern = "%{INT:a:int}"\nfields = { a = "int" }',
        "line 15, parse.fields.a: the pattern has a type for it, too",
    ),
    "own-pattern-type": (
        '"combined"',
        '"grok"\npattern = "%{A:a}"\npatterns = { A = 1 }',
        "line 15, parse.patterns.A: expected str, got int",
    ),
    "collision": ("minute =", "host =", "line 16, columns.host: there is already a column host"),
    "column-name": ("minute =", '"a b" =', "line 16, columns.a b: 'a b' must be letters"),
    "window": ('"1 minute"', '"1"', "line 19, counts.window: '1' must be like '1 minute'"),
    "by": (
        '"minute"]',
        '"hour"]',
        "line 21, counts.by: column 'hour' not found. There are: time, remote_addr",
    ),
    "no-path": ('path = "table"', "", "line 23, sink.path: is missing"),
    "no-subject": ('"parquet"\npath = "table"', '"jetstream"', "line 23, sink.subject: is missing"),
    "useless-path": ('"parquet"', '"console"', "line 25, sink.path: unknown key"),
    "partition": (
        '"table"',
        '"table"\npartition_by = ["day"]',
        "line 26, sink.partition_by: column 'day' not found. There are: window_start",
    ),
    "no-place": (
        'subject = "dead.lines"',
        "",
        "line 27, dead_letters: set either subject or drop = true",
    ),
    "both-places": (
        '"dead.lines"',
        '"dead.lines"\ndrop = true',
        "line 27, dead_letters: set either subject or drop = true",
    ),
    "loop": (
        "dead.lines",
        "logs.dead",
        "line 28, dead_letters.subject: 'logs.dead' overlaps source.subjects",
    ),
    "wildcard": ("dead.lines", "dead.*", "line 28, dead_letters.subject: "),
    "sink-format": (
        '"parquet"',
        '"orc"',
        "line 24, sink.format: unknown format 'orc'. There are: parquet",
    ),
    "sink-format-type": ('"parquet"', '["parquet"]', "line 24, sink.format: unknown format ['parquet']"),
    "no-sink-format": ('format = "parquet"\n', "", "line 23, sink.format: is missing"),
    "source-format": (
        "[source]",
        '[source]\nformat = "kafka"',
        "line 6, source.format: unknown format 'kafka'",
    ),
    "conf": (
        'conf = { "spark.driver.memory" = "1g" }',
        '[spark.conf]\n"spark.a" = 1\n"spark.b.c" = [1]',
        "line 34, spark.conf.spark.b.c: expected str, got list",
    ),
    "column-type": (
        "minute =",
        "a = '''\n[sink]'''\nb = 5\nminute =",
        "line 18, columns.b: expected str, got int",
    ),
    "field-type": (
        '"combined"',
        '"json"\n[parse.fields]\na = "int"\nb = 1',
        "line 16, parse.fields.b: expected str, got int",
    ),
    "list-item": ('["logs.>"]', '["logs.>", 5]', "line 8, source.subjects: expected str, got int"),
    "no-password": (
        "[parse]",
        'user = "me"\n[parse]',
        "line 5, source.password_file: is missing: source.user needs",
    ),
    "empty-password": (
        "[parse]",
        'user = "me"\npassword_file = "empty"\n[parse]',
        "line 13, source.password_file: file ",
    ),
    "internal-name": ("minute =", "_reason =", "line 16, columns._reason: '_reason' must be letters"),
    "internal-group": (
        '"combined"',
        '"regex"\npattern = "(?<_data>.)"',
        "line 14, parse.pattern: '_data' must be letters",
    ),
    "two-lines": (
        '"combined"',
        '"json"\nfields = { line = "int" }\nkeep_line = true',
        "line 15, parse.keep_line: there is already a field named line",
    ),
    "lost-time": (
        '"combined"',
        '"json"\nfields = { time = "string" }',
        'line 12, parse.time: the field time would be lost. Set `time = "time"`',
    ),
    "lost-time-of-a-group": (
        '"combined"',
        '"regex"\npattern = \'(?<time>.) (?<at>.)\'\ntime = "at"',
        "line 15, parse.time: the field time would be lost",
    ),
    "boolean-time": (
        '"combined"',
        '"json"\nfields = { a = "boolean" }\ntime = "a"',
        "line 15, parse.time: field a is a boolean",
    ),
    "format-of-a-timestamp": (
        '"combined"',
        '"json"\nfields = { a = "timestamp" }\ntime = "a"\ntime_format = "yyyy"',
        "line 16, parse.time_format: requires a string, and field a is a timestamp",
    ),
    "endless-year": (
        '"combined"',
        '"json"\nfields = { a = "string" }\ntime = "a"\ntime_format = "d/M/y"',
        "line 16, parse.time_format: must have the year as yyyy or yy, not y",
    ),
    "no-window": ('"1 minute"', '"0 minutes"', "line 19, counts.window: must be more than 0"),
    "by-twice": ('"minute"]', '"host"]', "line 21, counts.by: has host twice"),
    "partition-twice": (
        '"table"',
        '"table"\npartition_by = ["host", "host"]',
        "line 26, sink.partition_by: has host twice",
    ),
    "in-the-checkpoint": (
        '"table"',
        '"state/checkpoint"',
        "line 25, sink.path: table and checkpoint must be apart",
    ),
    "around-the-checkpoint": (
        '"table"',
        '"state/../state"',
        "line 25, sink.path: table and checkpoint must be apart",
    ),
    "no-rows": ('"parquet"\npath = "table"', '"console"\nrows = 0', "line 25, sink.rows: must be at least 1"),
    "toml": ("[parse]", "[parse", "line 12"),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_told_with_its_line_and_key(tmp_path: Path, mistake: str) -> None:
    before, after, told = MISTAKES[mistake]
    (tmp_path / "empty").touch()
    assert before in WHOLE
    with pytest.raises(UsageError) as caught:
        read_config(written(tmp_path, WHOLE.replace(before, after, 1)))
    assert str(caught.value).startswith("pipeline.toml")
    assert told in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nothing\.toml: No such file"):
        read_config(tmp_path / "nothing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_config(tmp_path / "bytes.toml")


@for_each(
    ("path", "line"),
    [("a", 1), ("b.c", 3), ("b.d.e", 4), ("b.f", 2), ("x.y.z", 6), ("x.y", 5), ("b.g h", 7), ("none", None)],
)
def test_lines_are_found_in_tables_dotted_keys_and_inline_tables(path: str, line: int | None) -> None:
    text = "a = 1\n[b]\nc = 2\nd = { e = 3 }\n[x.y] # tables\nz = 4\n[b]\n"
    text = text.replace("[b]\n", '"b"."g h" = 1\n') if path == "b.g h" else text
    assert line_of(text, path.split(".")) == (line if path != "b.g h" else 2)


def test_counts_have_names_of_their_own(tmp_path: Path) -> None:
    for name in ("count", "window", "window_start", "Window_End"):
        text = WHOLE.replace("minute =", f"{name} =").replace('"minute"', f'"{name}"')
        with pytest.raises(UsageError, match=f"line 21, counts.by: {name} is a column of the counts already"):
            read_config(written(tmp_path, text))


def test_text_like_keys_in_multi_line_strings_is_ignored() -> None:
    text = "\n".join(
        (
            'a = """',
            "[sink]",
            'format = 3 # \\"""',
            '"""',
            "b = '''x",
            "c = 1'''",
            '# it\'s """',
            'c = \'"""\'',
            'd = "a # \\" b"',
            "[sink]",
            "format = 4 # it's",
        )
    )
    assert tomllib.loads(text)["sink"] == {"format": 4}
    keys = ("a", "b", "c", "d", "sink", "sink.format")
    assert [line_of(text, key.split(".")) for key in keys] == [1, 5, 8, 9, 10, 11]


@for_each(
    ("time_format", "fine", "far"),
    [
        ("yyyy-MM-dd HH:mm:ss Z", ["2026-01-31 12:00:00 +0000"], ["+294248-01-31", "-294248-01-31"]),
        ("yyyyMMdd-HHmmss", ["20260131-120000"], ["+2942480131-120000", "-2942480131-120000"]),
        ("ddMMyyyy-HHmmss", ["31012026-120000"], ["3101-294248-120000", "3101+294248-120000"]),
        ("dMMM[ ]uuuu'y'", ["1Jan2026y"], ["1Jan-294248y", "31Jan+294248y"]),
    ],
)
def test_years_that_spark_cannot_count_are_known_by_their_sign(
    time_format: str, fine: list[str], far: list[str]
) -> None:
    pattern = far_year(time_format)
    assert [text for text in fine + far if re.search(pattern, text)] == far


def test_patterns_lose_their_names_and_keep_their_numbers() -> None:
    pattern = read_pattern(r"(x)(?<a_b>\d)(?P<c>(?<!y)z)(?P=a_b)")
    assert pattern.text == r"^(?:(x)(\d)((?<!y)z)\2)$"
    assert pattern.groups == {"a_b": 2, "c": 3}
