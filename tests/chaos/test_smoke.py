"""Every workload under every fault, once, as briefly as possible. `make chaos` does it for longer."""

from __future__ import annotations

import pytest

from chaos import report
from chaos.cell import run
from chaos.plan import Plan
from chaos.site import Place

pytestmark = pytest.mark.faults

SEED = 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", list(Place))
async def test_nothing_is_lost_doubled_disordered_stuck_or_left_over(place: Place) -> None:
    outcome = await run(Plan.everything(SEED, place))
    assert outcome.findings == [], "\n".join(report.details(outcome))
    assert sum(outcome.faults.values()) == len(outcome.plan.steps)
    assert outcome.stored
    assert outcome.deliveries > outcome.stored
