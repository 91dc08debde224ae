"""Tables fit their terminal: nothing is split, texts are cut, columns left out, the widest first."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.cli.ui.table import fit_columns
from tests.cli.support import Cli, Terminal
from tests.support.cases import for_each


@for_each(
    ("widths", "cut", "available", "fitted"),
    [
        ([10, 10], [True, True], 27, [10, 10]),
        ([10, 40], [True, True], 37, [10, 20]),  # The widest first ...
        ([30, 40], [True, True], 47, [20, 20]),  # ... until they are equal.
        ([10, 19], [True, False], 27, [10, 0]),  # A date is whole, or not there.
        ([10, 19, 5], [True, False, False], 30, [10, 0, 5]),
        ([10, 19, 5], [True, False, False], 20, [8, 0, 5]),
        ([50], [True], 20, [16]),
        ([19, 5], [False, True], 10, [19, 0]),  # The first one stays, whatever happens.
    ],
)
def test_columns(widths: list[int], cut: list[bool], available: int, fitted: list[int]) -> None:
    assert fit_columns(widths, cut, available) == fitted


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=9), st.integers(20, 200))
def test_a_table_fits_if_its_first_column_does(columns: list[tuple[int, bool]], available: int) -> None:
    widths, cut = [list(each) for each in zip(*columns, strict=True)]
    fitted = fit_columns(widths, cut, available)
    first = min(widths[0], 8) if cut[0] else widths[0]
    if first + 4 <= available:
        assert sum(width + 3 for width in fitted if width) + 1 <= available
    assert all(
        new in (0, old) or (may and 8 <= new < old) for new, old, may in zip(fitted, widths, cut, strict=True)
    )


@pytest.mark.parametrize("columns", [80, 60])
def test_a_list_of_streams_fits_the_terminal(
    terminal: Callable[..., Terminal], cli: Cli, name: str, columns: int
) -> None:
    long = f"{name}_WITH_A_NAME_THAT_IS_RATHER_LONG_FOR_A_STREAM"
    cli("stream", "add", long, "--subjects", f"{name}.a.very.long.subject.>,{name}.another.one.with.tokens.*")
    cli("pub", f"{name}.a.very.long.subject.x", "x", "--count", 1234)
    shown = terminal("stream", "ls", env={"COLUMNS": str(columns)})
    assert shown.end() == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown.seen).replace("\r", "").splitlines()
    table = [line for line in lines if line[:1] in {*"╭│├╰"}]
    assert {len(line) for line in table} <= set(range(columns + 1))
    (row,) = [line for line in table if name in line]  # one line, so nothing is folded
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[0].startswith(name)
    assert cells[0].endswith("…")
    assert "1,234" in cells
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", cell) for cell in cells if cell.startswith("20")
    )
