"""The benchmarks run, and their page has all its parts. No figure is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.harness import SIZE, Measurement, Table
from bench.measurements import everything
from bench.report import page
from bench.results import Results, Run

ROOT = Path(__file__).parents[1]
#: Those with Spark are too long for a test.
WITHOUT_SPARK = (
    *("core-publish", "core-subscribe", "fetch", "acked", "publish", "delivery", "request", "ship"),
    *("kv-put", "kv-get", "object-put", "object-get"),
)


def invented(measurement: Measurement) -> Run:
    """A run in which every contender is as good as the others."""
    sample = {column.key: 1.0 for column in measurement.columns}
    samples = {contender.name: [sample, sample] for contender in measurement.contenders}
    return Run("2026-01-01", 2, [Table(size, 1000, samples) for size in {SIZE, *measurement.sizes}])


def test_a_quick_run_measures_every_contender_and_writes_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", *WITHOUT_SPARK, "--quick", "--write", "--docs", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / page.PAGE).read_text()
    for measurement in everything():
        assert (f"## {measurement.title}\n" in text) == (measurement.name in WITHOUT_SPARK)
        for contender in measurement.contenders:
            if measurement.name in WITHOUT_SPARK and not contender.missing:
                assert f"| {contender.name} " in text


def test_results_survive_their_file_and_no_target_lacks_a_figure(tmp_path: Path) -> None:
    measurements = everything()
    results = Results("2026-01-02", {"CPU": "2"}, {"Python": "3.11"})
    results.runs = {measurement.name: invented(measurement) for measurement in measurements}
    first = page.write(results, measurements, tmp_path).read_text()
    again = page.write(Results.load(tmp_path / page.DATA), measurements, tmp_path).read_text()
    assert first == again
    assert "not measured" not in first
    assert "Measured on 2026-01-01." in first
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "benchmarks-cpu.svg",
        "benchmarks-throughput.svg",
        page.DATA,
        page.PAGE,
    ]
