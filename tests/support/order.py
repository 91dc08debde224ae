"""The order of the tests, by which the workers share them.

pytest-xdist gives each worker one piece of the list, all of one size; a worker that is done takes tests from
the end of another's piece.
"""

from __future__ import annotations

import pytest

__all__ = ["shared_out"]


def shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests, in the order in which `workers` workers should have them."""
    # One worker gets all tests of the cluster, and another one the long tests.
    items = sorted(items, key=lambda item: (not _in_cluster(item), _is_long(item)))
    share = -(-len(items) // workers) or 1
    pieces = [items[start : start + share] for start in range(0, len(items), share)]
    # Long tests first: at the end the other workers would wait for them.
    return [item for piece in pieces for item in sorted(piece, key=_is_long, reverse=True)]


def _in_cluster(item: pytest.Item) -> bool:
    return "spark_cluster" in getattr(item, "fixturenames", ())


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("timeout") is not None
