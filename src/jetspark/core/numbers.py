"""Checks of the numbers that users pass: counts and durations."""

from __future__ import annotations

import math

from jetspark.errors import UsageError

__all__ = ["check_count", "check_seconds"]


def check_count(option: str, value: object, *, least: int = 1) -> None:
    """Raise `UsageError` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{option} must be a whole number of at least {least}, not {value!r}")


def check_seconds(option: str, value: object, *, zero: bool = False, endless: bool = True) -> None:
    """Raise `UsageError` unless `value` is a duration: more than 0 seconds, with `zero` also 0."""
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not (value > 0 or (zero and value == 0))
        or (value == math.inf and not endless)
    ):
        raise UsageError(f"{option} must be {'0 or more' if zero else 'more than 0'} seconds, not {value!r}")
