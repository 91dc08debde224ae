"""The widths of the columns of a table on a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["fit_columns"]

#: The width down to which a text is cut.
_NARROW: Final = 8
#: The width of a column's border and padding, and of the last border.
_BORDER: Final = 3
_END: Final = 1


def fit_columns(widths: Sequence[int], cut: Sequence[bool], available: int) -> list[int]:
    """The widths with which a table fits, 0 for columns that are left out.

    Columns that may be `cut` become narrower, the widest first. If that is not enough, columns are left out,
    the widest first, but never the first one.
    """
    least = [min(width, _NARROW) if may else width for width, may in zip(widths, cut, strict=True)]
    shown = list(range(len(widths)))
    while _total(least, shown) > available and len(shown) > 1:
        shown.remove(max(shown[1:], key=lambda index: (least[index], index)))
    fitted = [width if index in shown else 0 for index, width in enumerate(widths)]
    while (excess := _total(fitted, shown) - available) > 0:
        wide = [index for index in shown if fitted[index] > least[index]]
        if not wide:
            break
        widest = max(wide, key=fitted.__getitem__)
        second = max((fitted[index] for index in wide if index != widest), default=0)
        fitted[widest] = max(least[widest], fitted[widest] - excess, min(second, fitted[widest] - 1))
    return fitted


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _BORDER for index in shown) + _END
