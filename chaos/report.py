"""The table of the cells, the totals, and how to repeat what failed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from chaos.cell import Outcome

__all__ = ["HEADING", "row", "summary"]

_FORMAT = "{:>5}  {:<8}{:>11}  {:>9}  {:>6}  {:>8}  {:>10}  {:>6}  {:>7}  {}"
HEADING = _FORMAT.format(
    "cell", "place", "seed", "workloads", "faults", "stored", "delivered", "s", "longest", "result"
)


def row(number: int, outcome: Outcome) -> str:
    """One line; after a failure also what the cell did, what was found, and the command to repeat it."""
    plan = outcome.plan
    line = _FORMAT.format(
        number,
        plan.place,
        plan.seed,
        len(plan.workloads),
        sum(outcome.faults.values()),
        f"{outcome.stored:,}",
        f"{outcome.deliveries:,}",
        f"{outcome.seconds:.1f}",
        f"{max(outcome.longest.values(), default=0.0):.1f}",
        "FAILED" if outcome.findings else "ok",
    )
    notes = [f"       note: {note}" for note in outcome.notes]
    return "\n".join([line, *notes, *(details(outcome) if outcome.findings else ())])


def details(outcome: Outcome) -> list[str]:
    """The plan of a cell, its findings, and the command to repeat it."""
    plan = outcome.plan
    steps = ", ".join(f"{step.fault} at {step.at:.1f} s for {step.seconds:.1f} s" for step in plan.steps)
    lines = [f"workloads: {', '.join(plan.workloads)}", f"faults: {steps or 'none'}"]
    waits = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in outcome.longest.items())
    lines.append(f"longest wait of a stored message: {waits or 'none'}")
    lines += [f"errors that calls raised: {_counts(outcome.errors)}", *outcome.findings]
    lines.append(f'repeat it: make chaos ARGS="{plan.arguments}"')
    return [textwrap.indent(line.rstrip(), "       ") for line in lines]


def summary(outcomes: Sequence[Outcome], seed: int) -> str:
    """The totals, and the command for each cell that failed."""
    faults: Counter[str] = sum((outcome.faults for outcome in outcomes), Counter())
    errors: Counter[str] = sum((outcome.errors for outcome in outcomes), Counter())
    runs = Counter(name for outcome in outcomes for name in outcome.plan.workloads)
    failed = [outcome for outcome in outcomes if outcome.findings]
    stored = sum(outcome.stored for outcome in outcomes)
    deliveries = sum(outcome.deliveries for outcome in outcomes)
    return "\n".join(
        [
            f"seed {seed}: {len(outcomes)} cells, {sum(faults.values())} faults, {stored:,} messages stored, "
            f"{deliveries:,} delivered, {len(failed)} cells failed",
            f"faults: {_counts(faults)}",
            f"workloads: {_counts(runs)}",
            f"errors that calls raised: {_counts(errors)}",
            f"longest wait of a stored message: {', '.join(_longest(outcomes))}",
            *(f'repeat: make chaos ARGS="{outcome.plan.arguments}"' for outcome in failed),
        ]
    )


def _longest(outcomes: Sequence[Outcome]) -> list[str]:
    longest: dict[str, float] = {}
    for outcome in outcomes:
        for name, seconds in outcome.longest.items():
            longest[name] = max(seconds, longest.get(name, 0.0))
    return [f"{name} {seconds:.1f} s" for name, seconds in sorted(longest.items())]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"
