"""The tables of rules in docs/ name tests that exist, and every row has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cases import for_each

ROOT = Path(__file__).parents[2]
TESTS = {
    str(path.relative_to(ROOT / "tests")): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")
}


def rows(page: str) -> list[str]:
    """The rows of the tables in the last section of a page."""
    text = (ROOT / "docs" / page).read_text()
    return [
        line
        for line in text.partition("## The rules, and the tests that prove them")[2].splitlines()
        if line.startswith("| ") and not line.startswith(("| rule", "| fault"))
    ]


@pytest.mark.parametrize(("page", "number"), [("subscribe.md", 80), ("consuming.md", 70)])
def test_the_table_is_there(page: str, number: int) -> None:
    assert len(rows(page)) > number


@for_each("row", [*rows("subscribe.md"), *rows("consuming.md")])
def test_every_row_names_tests_that_exist(row: str) -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)::(test_\w+)`", row)
    assert named
    for file, test in named:
        assert re.search(rf"^(?:async )?def {test}\(", TESTS[file], re.MULTILINE), f"{file} has no {test}"
