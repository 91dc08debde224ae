"""`pipeline try`: what becomes of the lines of a file, of standard input, and of a stream."""

from __future__ import annotations

from pathlib import Path

from jetspark.logs.format.line import Line
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.trial import TrialLines, try_lines
from tests.cli.conftest import cli, no_settings
from tests.cli.support import Cli
from tests.logs.job.support import Pipes, access_line, config_of

__all__ = ["cli", "no_settings"]


def test_lines_become_rows_or_reasons_and_nothing_is_written(pipes: Pipes, tmp_path: Path) -> None:
    columns = "[columns]\nwhere = \"concat_ws(' ', host, file, line_offset, cut)\""
    config, where = config_of(tmp_path, 'format = "combined"', columns)
    line = access_line("web1", 7)
    lines = [Line(0, line.encode()), Line(100, b"poison \xff"), Line(108, line.encode(), cut=True)]
    first, bad, cut = try_lines(pipes.session, config, where, TrialLines(lines, "web1", "a.log"))
    assert (first.line, first.reason) == (line, None)
    assert {name: first.row[name] for name in ("time", "status", "where")} == {
        "time": "2026-01-31T12:00:07.000Z",
        "status": 200,
        "where": "web1 a.log 0 false",
    }
    assert (bad.line, bad.row, bad.reason) == ("poison \ufffd", {}, "not a line of format combined")
    assert cut.row["where"] == "web1 a.log 108 true"

    pipes.publish([line, "poison", line])
    config, where = read_config(pipes.file())
    found = try_lines(pipes.session, config, where, 2)
    assert [(each.line, each.reason) for each in found] == [
        (line, None),
        ("poison", "not a line of format combined"),
    ]
    assert not (tmp_path / "checkpoint").exists()
    assert not (tmp_path / "table").exists()


def test_what_cannot_be_tried_is_told_before_spark_starts(cli: Cli, tmp_path: Path) -> None:
    config_of(tmp_path, 'format = "raw"')
    file = tmp_path / "pipeline.toml"
    told = cli.fails("pipeline", "try", file, tmp_path / "nothing.log", code=2)
    assert told == f"jetspark: cannot read {tmp_path / 'nothing.log'}: No such file or directory\n"
    assert "cannot connect" in cli.fails("pipeline", "try", file, "-s", "nats://127.0.0.1:1", code=3)
    assert "Invalid value for '--lines'" in cli.fails("pipeline", "try", file, "--lines", "0", code=2)
