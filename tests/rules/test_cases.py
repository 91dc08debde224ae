"""`for_each` tries every case, and names those that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from tests.support.cases import for_each
from tests.support.untyped import untyped


def test_every_case_is_tried_and_the_failures_are_told_together() -> None:
    tried = []

    @for_each("number", [1, 2, 3, pytest.param(4, id="four")])
    def check(number: int) -> None:
        tried.append(number)
        assert number % 2, "it is even"

    with pytest.raises(AssertionError) as caught:
        untyped(check)()
    assert tried == [1, 2, 3, 4]
    told = str(caught.value)
    assert told.startswith("2 of 4 cases fail:\n2. 2\n    AssertionError: it is even")
    assert "4. four\n" in told


async def test_decorators_stack_fixtures_stay_and_coroutines_are_awaited() -> None:
    tried = []

    @for_each(("x", "y"), [(1, 2), (3, 4)])
    @for_each("z", "ab")
    async def check(x: int, y: int, z: str, tmp_path: str) -> None:
        tried.append((x, y, z, tmp_path))

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    await untyped(check)(tmp_path="t")
    assert tried == [(1, 2, "a", "t"), (1, 2, "b", "t"), (3, 4, "a", "t"), (3, 4, "b", "t")]


@pytest.mark.parametrize("leave", [pytest.skip, pytest.fail])
def test_a_case_cannot_skip_the_others(leave: Callable[[str], None]) -> None:
    @for_each("number", [1, 2])
    def check(number: int) -> None:
        leave("no")

    with pytest.raises(AssertionError, match="2 of 2 cases fail"):
        untyped(check)()


def test_without_cases_a_test_fails() -> None:
    @for_each("number", [])
    def check(number: int) -> None: ...

    with pytest.raises(AssertionError, match="no cases"):
        untyped(check)()
