"""20,000 mutated documents for every change. `make fuzz` tries more."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target
from tests.support.effort import effort

CASES = effort(20_000, 400_000)
#: Cases of one example: hypothesis needs longer to make an example than a reader needs for a document.
BATCH = 50


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_mutated_document_is_read_or_refused(target: Target) -> None:
    @settings(max_examples=CASES * target.share // 20 // BATCH)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        random = Random(seed)
        for _ in range(BATCH):
            target.check(random)

    check()


def test_the_shares_make_up_all_cases() -> None:
    assert sum(target.share for target in TARGETS) == 20
