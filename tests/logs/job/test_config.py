"""`pipeline.toml`: what is accepted, and the line and key of every mistake. Without Spark."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from jetspark.errors import UsageError
from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.patterns import far_year, read_pattern
from jetspark.logs.job.sinks.files import FileSink
from jetspark.logs.job.sources.jetstream import JetStreamSource
from jetspark.logs.toml_lines import line_of
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

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
    assert isinstance(config.sink, FileSink)
    assert config.sink.path == "s3a://bucket/table"


def servers_of(config: Config) -> str | list[str] | None:
    assert isinstance(config.source, JetStreamSource)
    return config.source.servers


def test_servers_of_the_command_line_win_and_those_of_the_environment_stand_in(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    config, _ = read_config(file, servers="nats://other:1", default_servers="nats://environment:1")
    assert servers_of(config) == "nats://other:1"
    assert servers_of(read_config(file, default_servers="nats://environment:1")[0]) != "nats://environment:1"
    without = written(
        tmp_path, "\n".join(line for line in WHOLE.splitlines() if not line.startswith("servers"))
    )
    assert (
        servers_of(read_config(without, default_servers="nats://environment:1")[0]) == "nats://environment:1"
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
    "unknown-key": ("trigger =", "triger ="),
    "unknown-in-section": ("subjects =", "subject ="),
    "missing": ('stream = ["LOGS", "MORE-*"]\n', ""),
    "missing-section": ("[dead_letters]", "[columns2]"),
    "type": ("max_messages_per_trigger = 1000", 'max_messages_per_trigger = "x"'),
    "number": ("trigger = 1000", "trigger = 0"),
    "name": ('"access"', '"a b"'),
    "trigger": ("10 seconds", "soon"),
    "server": ('"nats://127.0.0.1:4222"', '"nats://me:hush@host"'),
    "stream": ('"LOGS", ', '"LO GS", '),
    "overlap": ('["logs.>"]', '["logs.>", "logs.a"]'),
    "start": ("{ LOGS = 12 }", '"tomorrow"'),
    "start-of-another": ("{ LOGS = 12 }", "{ OTHER = 12 }"),
    "no-file": ("[parse]", 'credentials_file = "x"\n[parse]'),
    "format": ('"combined"', '"combind"'),
    "fields": ('format = "combined"', 'format = "json"'),
    "needless": ('"combined"', '"combined"\ntime = "x"'),
    "kind": ('"combined"', '"json"\nfields = { a = "text" }'),
    "no-pattern": ('"combined"', '"regex"'),
    "bad-pattern": ('"combined"', '"regex"\npattern = "(?<a>"'),
    "no-groups": ('"combined"', '"regex"\npattern = "(a)"'),
    "no-such-group": ('"combined"', '"regex"\npattern = "(?<a>.)"\nfields = { b = "int" }'),
    "no-such-time": ('"combined"', '"json"\nfields = { a = "string" }\ntime = "b"'),
    "container": ('"combined"', '"raw"\ncontainer = "rkt"'),
    "container-column": ('"combined"', '"json"\ncontainer = "cri"\nfields = { output = "int" }'),
    "same-column": ('"combined"', '"json"\nfields = { "a.b" = "int", a_b = "int" }'),
    "field-inside-of-a-field": ('"combined"', '"json"\nfields = { a = "string", "a.b" = "int" }'),
    "field-around-fields": ('"combined"', '"json"\nfields = { "a.b" = "int", a = "string" }'),
    "fields-by-case": ('"combined"', '"json"\nfields = { "a.b" = "int", "A.c" = "int" }'),
    "empty-part": ('"combined"', '"json"\nfields = { "a..b" = "int" }'),
    "separator": ('"combined"', '"csv"\nfields = { a = "int" }\nseparator = "||"'),
    "quote": ('"combined"', '"csv"\nfields = { a = "int" }\nquote = ","'),
    "not-in-the-header": ('"combined"', '"csv"\nfields = { a = "int" }\nheader = "b,c"'),
    "twice-in-the-header": ('"combined"', '"csv"\nfields = { a = "int" }\nheader = "a,c,a"'),
    "header": ('"combined"', '"csv"\nfields = { a = "int" }\nheader = 1'),
    "exponential-pattern": ('"combined"', '"regex"\npattern = "(?<a>(\\\\w+ ?)+)"'),
    "slow-pattern": ('"combined"', '"grok"\npattern = "%{DATA:a} %{DATA:b} %{GREEDYDATA:c}"'),
    "long-lines": ('"combined"', '"grok"\npattern = "%{WORD:a}"\nmax_line = 65537'),
    "time-by-case": ('"combined"', '"csv"\nfields = { Time = "timestamp" }'),
    "unknown-pattern": ('"combined"', '"grok"\npattern = "%{IPORHOTS:a}"'),
    "unknown-type-in-a-pattern": ('"combined"', '"grok"\npattern = "%{INT:a:long}"'),
    "two-types": ('"combined"', '"grok"\npattern = "%{INT:a:int}"\nfields = { a = "int" }'),
    "own-pattern-type": ('"combined"', '"grok"\npattern = "%{A:a}"\npatterns = { A = 1 }'),
    "collision": ("minute =", "host ="),
    "column-name": ("minute =", '"a b" ='),
    "window": ('"1 minute"', '"1"'),
    "by": ('"minute"]', '"hour"]'),
    "no-path": ('path = "table"', ""),
    "no-subject": ('"parquet"\npath = "table"', '"jetstream"'),
    "useless-path": ('"parquet"', '"console"'),
    "partition": ('"table"', '"table"\npartition_by = ["day"]'),
    "no-place": ('subject = "dead.lines"', ""),
    "both-places": ('"dead.lines"', '"dead.lines"\ndrop = true'),
    "loop": ("dead.lines", "logs.dead"),
    "wildcard": ("dead.lines", "dead.*"),
    "sink-format": ('"parquet"', '"orc"'),
    "sink-format-type": ('"parquet"', '["parquet"]'),
    "no-sink-format": ('format = "parquet"\n', ""),
    "source-format": ("[source]", '[source]\nformat = "kafka"'),
    "conf": ('conf = { "spark.driver.memory" = "1g" }', '[spark.conf]\n"spark.a" = 1\n"spark.b.c" = [1]'),
    "column-type": ("minute =", "a = '''\n[sink]'''\nb = 5\nminute ="),
    "field-type": ('"combined"', '"json"\n[parse.fields]\na = "int"\nb = 1'),
    "list-item": ('["logs.>"]', '["logs.>", 5]'),
    "no-password": ("[parse]", 'user = "me"\n[parse]'),
    "empty-password": ("[parse]", 'user = "me"\npassword_file = "empty"\n[parse]'),
    "internal-name": ("minute =", "_reason ="),
    "internal-group": ('"combined"', '"regex"\npattern = "(?<_data>.)"'),
    "two-lines": ('"combined"', '"json"\nfields = { line = "int" }\nkeep_line = true'),
    "lost-time": ('"combined"', '"json"\nfields = { time = "string" }'),
    "lost-time-of-a-group": ('"combined"', '"regex"\npattern = \'(?<time>.) (?<at>.)\'\ntime = "at"'),
    "boolean-time": ('"combined"', '"json"\nfields = { a = "boolean" }\ntime = "a"'),
    "format-of-a-timestamp": (
        '"combined"',
        '"json"\nfields = { a = "timestamp" }\ntime = "a"\ntime_format = "yyyy"',
    ),
    "endless-year": ('"combined"', '"json"\nfields = { a = "string" }\ntime = "a"\ntime_format = "d/M/y"'),
    "no-window": ('"1 minute"', '"0 minutes"'),
    "by-twice": ('"minute"]', '"host"]'),
    "partition-twice": ('"table"', '"table"\npartition_by = ["host", "host"]'),
    "in-the-checkpoint": ('"table"', '"state/checkpoint"'),
    "around-the-checkpoint": ('"table"', '"state/../state"'),
    "no-rows": ('"parquet"\npath = "table"', '"console"\nrows = 0'),
    "toml": ("[parse]", "[parse"),
}


def test_a_mistake_is_told_with_its_line_and_key(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "empty").touch()
    told = Refusals({re.escape(str(tmp_path)): "DIRECTORY"})
    for name, (before, after) in MISTAKES.items():
        assert before in WHOLE
        with told.refusal(name, names="pipeline.toml", hides="hush"):
            read_config(written(tmp_path, WHOLE.replace(before, after, 1)))
    golden("errors-pipeline", told.text())


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
