"""Iterators of the API that are generators, and so can be closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

__all__ = ["generator"]

T = TypeVar("T")


def generator(items: AsyncIterator[T]) -> AsyncGenerator[T]:
    """Return the iterator, as the generator that it is."""
    assert isinstance(items, AsyncGenerator)
    return items
