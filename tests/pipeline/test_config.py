"""`pipeline.toml`: what is accepted, and the line and key of every mistake. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.errors import UsageError
from jetspark.shipper.pipeline.config_file import read_config
from jetspark.shipper.pipeline.patterns import read_pattern
from jetspark.shipper.pipeline.toml_lines import line_of

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


def test_a_file_is_read_with_types_and_defaults(tmp_path: Path) -> None:
    config, _ = read_config(written(tmp_path, WHOLE))
    assert config.source_options() == {
        "servers": "nats://127.0.0.1:4222,nats://127.0.0.1:4223",
        "stream": "LOGS,MORE-*",
        "subjects": "logs.>",
        "startingPosition": '{"LOGS":12}',
        "maxMessagesPerTrigger": "1000",
        "failOnDataLoss": "true",
    }
    assert config.written_columns == ("window_start", "window_end", "host", "status", "minute", "count")
    assert config.partition_by == ("date", "host")
    assert config.row_columns[:2] == ("time", "remote_addr")
    assert config.spark.conf == {"spark.driver.memory": "1g"}


def test_paths_are_relative_to_the_file_and_urls_stay(tmp_path: Path) -> None:
    config, _ = read_config(written(tmp_path, WHOLE.replace('"table"', '"s3a://bucket/table"')))
    assert config.checkpoint == str(tmp_path / "state/checkpoint")
    assert config.sink.path == "s3a://bucket/table"


def test_servers_of_the_command_line_win_and_those_of_the_environment_stand_in(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    config, _ = read_config(file, servers="nats://other:1", elsewhere="nats://environment:1")
    assert config.source.servers == "nats://other:1"
    assert read_config(file, elsewhere="nats://environment:1")[0].source.servers != "nats://environment:1"
    without = written(
        tmp_path, "\n".join(line for line in WHOLE.splitlines() if not line.startswith("servers"))
    )
    assert read_config(without, elsewhere="nats://environment:1")[0].source.servers == "nats://environment:1"


def test_secrets_are_read_from_files_and_are_in_no_repr(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    text = WHOLE.replace("[parse]", 'user = "me"\npassword_file = "secret"\n\n[parse]')
    config, _ = read_config(written(tmp_path, text))
    assert config.source_options()["password"] == "hush"
    assert "hush" not in repr(config)


# What is replaced in the file above, by what, and what is told.
MISTAKES = {
    "unknown-key": ("trigger =", "triger =", "line 3, triger: there is no such key"),
    "unknown-in-section": ("subjects =", "subject =", "line 8, source.subject: there is no such key"),
    "missing": ('stream = ["LOGS", "MORE-*"]\n', "", "line 5, source.stream: is missing"),
    "missing-section": ("[dead_letters]", "[columns2]", "columns2: there is no such key"),
    "type": ("max_messages_per_trigger = 1000", 'max_messages_per_trigger = "x"', "line 10, source.max_"),
    "number": ("trigger = 1000", "trigger = 0", "line 10, source.max_messages_per_trigger: must be a whole"),
    "name": ('"access"', '"a b"', "line 1, name: 'a b' must be letters"),
    "trigger": ("10 seconds", "soon", "line 3, trigger: 'soon' must be once, available-now, or like"),
    "server": (
        '"nats://127.0.0.1:4222"',
        '"nats://me:hush@host"',
        "line 6, source.servers: servers must not hold a",
    ),
    "stream": ('"LOGS", ', '"LO GS", ', "line 7, source.stream: "),
    "overlap": ('["logs.>"]', '["logs.>", "logs.a"]', "line 8, source.subjects: must be filters that do not"),
    "start": ("{ LOGS = 12 }", '"tomorrow"', "line 9, source.start: must be a time"),
    "start-of-another": ("{ LOGS = 12 }", "{ OTHER = 12 }", "line 9, source.start: "),
    "no-file": (
        "[parse]",
        'credentials_file = "x"\n[parse]',
        "line 12, source.credentials_file: there is no",
    ),
    "format": ('"combined"', '"csv"', "line 13, parse.format: "),
    "fields": ('format = "combined"', 'format = "json"', "line 12, parse.fields: is missing: format json"),
    "needless": ('"combined"', '"combined"\ntime = "x"', "line 14, parse.time: format combined knows by"),
    "kind": ('"combined"', '"json"\nfields = { a = "text" }', "line 14, parse.fields.a: 'text' is none of"),
    "no-pattern": ('"combined"', '"regex"', "line 12, parse.pattern: is missing"),
    "bad-pattern": ('"combined"', '"regex"\npattern = "(?<a>"', "line 14, parse.pattern: is no regular"),
    "no-groups": ('"combined"', '"regex"\npattern = "(a)"', "line 14, parse.pattern: needs named groups"),
    "no-such-group": (
        '"combined"',
        '"regex"\npattern = "(?<a>.)"\nfields = { b = "int" }',
        "line 15, parse.fields.b: the pattern has no group",
    ),
    "no-such-time": (
        '"combined"',
        '"json"\nfields = { a = "string" }\ntime = "b"',
        "line 15, parse.time: there is no field 'b'",
    ),
    "collision": ("minute =", "host =", "line 16, columns.host: column host is there already"),
    "column-name": ("minute =", '"a b" =', "line 16, columns.a b: a column is letters"),
    "window": ('"1 minute"', '"1"', "line 19, counts.window: '1' must be like '1 minute'"),
    "by": (
        '"minute"]',
        '"hour"]',
        "line 21, counts.by: there is no column 'hour'. There are: time, remote_addr",
    ),
    "no-path": ('path = "table"', "", "line 23, sink.path: is missing: format parquet writes files"),
    "no-subject": ('"parquet"\npath = "table"', '"jetstream"', "line 23, sink.subject: is missing"),
    "useless-path": ('"parquet"', '"console"', "line 25, sink.path: format console writes no files"),
    "partition": ('"table"', '"table"\npartition_by = ["day"]', "line 26, sink.partition_by: there is no"),
    "no-place": ('subject = "dead.lines"', "", "line 27, dead_letters: lines that do not parse need a place"),
    "both-places": ('"dead.lines"', '"dead.lines"\ndrop = true', "line 27, dead_letters: lines that do not"),
    "loop": (
        "dead.lines",
        "logs.dead",
        "line 28, dead_letters.subject: 'logs.dead' is read by source.subjects",
    ),
    "wildcard": ("dead.lines", "dead.*", "line 28, dead_letters.subject: "),
    "conf": ('"1g"', "1", "line 32, spark.conf: expected str, got int"),
    "toml": ("[parse]", "[parse", "line 12"),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_told_with_its_line_and_key(tmp_path: Path, mistake: str) -> None:
    before, after, told = MISTAKES[mistake]
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


@pytest.mark.parametrize(
    ("path", "line"),
    [("a", 1), ("b.c", 3), ("b.d.e", 4), ("b.f", 2), ("x.y.z", 6), ("x.y", 5), ("b.g h", 7), ("none", None)],
)
def test_lines_are_found_in_tables_dotted_keys_and_inline_tables(path: str, line: int | None) -> None:
    text = "a = 1\n[b]\nc = 2\nd = { e = 3 }\n[x.y] # tables\nz = 4\n[b]\n"
    text = text.replace("[b]\n", '"b"."g h" = 1\n') if path == "b.g h" else text
    assert line_of(text, path.split(".")) == (line if path != "b.g h" else 2)


def test_patterns_lose_their_names_and_keep_their_numbers() -> None:
    pattern = read_pattern(r"(x)(?<a_b>\d)(?P<c>(?<!y)z)(?P=a_b)")
    assert pattern.text == r"^(?:(x)(\d)((?<!y)z)\2)$"
    assert pattern.groups == {"a_b": 2, "c": 3}
