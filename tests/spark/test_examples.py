"""The examples with Spark run and print what they promise, in the session of the tests.

`make wheels` runs them as the programs that they are.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

# What the last line of each example says.
LAST_LINES = {
    "spark_stream_to_stream": "3600 bills for 3600 orders",
    "spark_table_scan": "26 orders from the US since sequence 900",
    "spark_to_parquet": "6000 rows, 6000 different sequences",
    "spark_windowed_counts": "logs.web2: 1000 lines in windows that are done",
    "spark_worker": "500 by the plain worker, 2500 by Spark, 0 left in the queue",
}


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_an_example_runs_and_prints_what_it_promises(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # It is not theirs.
    runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == LAST_LINES[name]
    if name == "spark_table_scan":  # README.md shows the second half of it.
        assert "```console\n" + "\n".join(lines[-8:]) + "\n```" in (ROOT / "README.md").read_text()
