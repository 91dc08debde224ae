"""Many alike cases in one test: `for_each` instead of `pytest.mark.parametrize`.

For pure checks of names, texts and values. The cases share the fixtures of the test, so a case must leave
them as they were. Every case runs; the failures are told together, each with the name of its case.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytest
from _pytest.mark import ParameterSet

__all__ = ["Cases", "for_each"]

_Test = TypeVar("_Test", bound=Callable[..., Any])

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Cases:
    """The cases of one test: `with cases.case(name): ...` for each, and `cases.end()` at the end."""

    def __init__(self) -> None:
        self._tried = 0
        self._failed: dict[str, BaseException] = {}

    @contextmanager
    def case(self, name: object) -> Iterator[None]:
        self._tried += 1
        try:
            yield
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            self._failed[f"{self._tried}. {name}"] = error

    def end(self) -> None:
        """Fail with all failures, of which the first is the cause; without a case, too."""
        assert self._tried, "there are no cases"
        if self._failed:
            text = "\n".join(f"{name}\n{_indented(error)}" for name, error in self._failed.items())
            first = next(iter(self._failed.values()))
            raise AssertionError(f"{len(self._failed)} of {self._tried} cases fail:\n{text}") from first


def for_each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[_Test], _Test]:
    """Run a test function for every case; the parameters are those of `pytest.mark.parametrize`."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(keys, case) for case in cases]
    if ids is None or callable(ids):
        show = ids or _show
        titles = [", ".join(str(show(value)) for value in row.values()) for _, row in rows]
    else:
        titles = [str(title) for title in ids]
    named = [(id or title, row) for (id, row), title in zip(rows, titles, strict=True)]

    def decorate(function: _Test) -> _Test:
        signature = inspect.signature(function)
        assert set(keys) <= set(signature.parameters), f"{function.__name__} has no parameters {keys}"
        test: Any
        if inspect.iscoroutinefunction(function):

            async def test(**fixtures: Any) -> None:
                tried = Cases()
                for title, arguments in named:
                    with tried.case(title):
                        await function(**arguments, **fixtures)
                tried.end()
        else:

            def test(**fixtures: Any) -> None:
                tried = Cases()
                for title, arguments in named:
                    with tried.case(title):
                        function(**arguments, **fixtures)
                tried.end()

        functools.update_wrapper(test, function)
        # pytest passes the fixtures that are left.
        left = [each for each in signature.parameters.values() if each.name not in keys]
        test.__signature__ = signature.replace(parameters=left)
        return cast(_Test, test)

    return decorate


def _row(keys: list[str], case: Any) -> tuple[str | None, dict[str, Any]]:
    """The id of a case, if it has one, and its arguments."""
    if not isinstance(case, ParameterSet):
        return None, dict(zip(keys, case if len(keys) > 1 else [case], strict=True))
    assert not case.marks, "a case that has marks needs pytest.mark.parametrize"
    return str(case.id or "") or None, dict(zip(keys, case.values, strict=True))


def _show(value: object) -> str:
    return getattr(value, "__name__", None) or _SHORT.repr(value)


def _indented(error: BaseException) -> str:
    lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
    return "\n".join(f"    {line}" for text in lines for line in text.splitlines())
