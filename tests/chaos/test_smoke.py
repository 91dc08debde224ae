"""Every workload under every fault, once, as briefly as possible. `make chaos` does it for longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos import report
from chaos.cell import run
from chaos.plan import Plan
from chaos.site import Place

SEED = 1
#: They hang while `messages()` does not look for a consumer that vanished without a word.
LEFT_OUT = ("vanishing", "vanishing_blocking")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", list(Place))
async def test_nothing_is_lost_doubled_disordered_stuck_or_left_over(place: Place) -> None:
    plan = Plan.everything(SEED, place)
    plan = replace(plan, workloads=tuple(name for name in plan.workloads if name not in LEFT_OUT))
    outcome = await run(plan)
    assert outcome.findings == [], "\n".join(report.details(outcome))
    assert sum(outcome.faults.values()) == len(outcome.plan.steps)
    assert outcome.stored
    assert outcome.deliveries > outcome.stored
