"""The report says what was done, and how to repeat what failed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from chaos import report
from chaos.cell import Outcome
from chaos.plan import Plan

ROOT = Path(__file__).parents[2]


def outcome(seed: int, *findings: str) -> Outcome:
    faults, errors = Counter({"kill": 2}), Counter({"Timeout": 3})
    plan = Plan.random(seed, only_workloads=["publish", "fetch"])
    return Outcome(plan, list(findings), [], faults, errors, 100, 250, {"fetch": 1.5}, 12.0)


def test_a_cell_that_passed_is_one_line() -> None:
    line = report.row(3, outcome(7))
    assert "\n" not in line
    assert line.split()[0] == "3"
    assert line.endswith("ok")
    assert len(line) == len(report.HEADING) - len("result") + len("ok")


def test_a_cell_that_failed_says_what_was_found_and_how_to_repeat_it() -> None:
    text = report.row(3, outcome(7, "fetch: 1 lost: 5"))
    assert "FAILED" in text
    assert "fetch: 1 lost: 5" in text
    assert 'repeat it: make chaos ARGS="--cell 7 --workloads publish,fetch"' in text


def test_the_summary_counts_cells_faults_messages_and_failures() -> None:
    text = report.summary([outcome(7), outcome(8, "fetch: 1 lost: 5")], 42)
    assert "seed 42: 2 cells, 4 faults, 200 messages stored, 500 delivered, 1 cells failed" in text
    assert "faults: kill 4\n" in text
    assert "workloads: fetch 2, publish 2\n" in text
    assert "errors that calls raised: Timeout 6\n" in text
    assert "fetch 1.5 s" in text
    assert text.endswith('repeat: make chaos ARGS="--cell 8 --workloads publish,fetch"')


def test_an_unknown_workload_is_refused() -> None:
    command = [sys.executable, "-m", "chaos", "--workloads", "publish,nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown: nothing" in done.stderr
