"""The table of rules in docs/subscribe.md names tests that exist, and every row has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "subscribe.md").read_text()
TESTS = {
    str(path.relative_to(ROOT / "tests")): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")
}

ROWS = [
    line
    for line in TEXT.partition("## The rules, and the tests that prove them")[2].splitlines()
    if line.startswith("| ") and not line.startswith(("| rule", "| fault"))
]


def test_the_table_is_there() -> None:
    assert len(ROWS) > 70


@pytest.mark.parametrize("row", ROWS)
def test_every_row_names_tests_that_exist(row: str) -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)::(test_\w+)`", row)
    assert named
    for file, test in named:
        assert re.search(rf"^(?:async )?def {test}\(", TESTS[file], re.MULTILINE), f"{file} has no {test}"
