"""The order of the tests, by which the workers share them.

Tests with Spark compute; the others mostly wait. Half of the workers begin with the first kind, half with the
second, so that together they use the processors well. pytest-xdist gives each worker one piece of the list,
all of one size; a worker that is done takes tests from the end of another's piece.
"""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest

__all__ = ["shared_out"]

_TESTS = Path(__file__).parents[1]
_COMPUTING = (_TESTS / "spark", _TESTS / "logs/job", _TESTS / "test_examples.py")


def shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests, in the order in which `workers` workers should have them."""
    # The cluster of the first tests is then started by one worker only.
    computing = sorted(filter(_computes, items), key=lambda item: (not _in_cluster(item), _is_long(item)))
    waiting = [item for item in items if not _computes(item)]
    beginners = max(workers // 2, 1) if waiting else workers
    share = math.ceil(len(computing) / beginners)
    rest = iter(waiting)
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        size = (len(items) - len(ordered)) // (workers - worker)
        # Long tests first: at the end the other workers would wait for them.
        piece = sorted(computing[worker * share :][:share], key=_is_long, reverse=True)
        ordered += piece
        ordered += islice(rest, max(size - len(piece), 0))
    return ordered


def _computes(item: pytest.Item) -> bool:
    return any(item.path.is_relative_to(place) for place in _COMPUTING)


def _in_cluster(item: pytest.Item) -> bool:
    return "spark_cluster" in getattr(item, "fixturenames", ())


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("timeout") is not None
