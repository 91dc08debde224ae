"""For tests that pass on purpose what an annotation forbids, or what no annotation can say."""

from __future__ import annotations

from typing import Any

__all__ = ["untyped"]


def untyped(value: object) -> Any:
    """Return the value, as one that a type checker takes for any type."""
    return value
