"""`python -m chaos [--minutes 20] [--seed N] [--cell N]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Iterator

from chaos import report
from chaos.cell import run
from chaos.plan import Plan
from chaos.site import Place


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Run random workloads under random faults; compare what was written, stored and read.",
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no cell after so long (20)")
    parser.add_argument("--seed", type=int, help="determines the cells (random)")
    parser.add_argument("--cell", type=int, help="run the one cell with this seed")
    parser.add_argument("--everything", choices=list(Place), help="one cell of all workloads and all faults")
    parser.add_argument("--times", type=int, default=1, help="repeat the one cell so often")
    arguments = parser.parse_args()
    # Connections are lost on purpose.
    logging.getLogger("jetspark").setLevel(logging.CRITICAL)
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    outcomes = []
    print(f"seed {seed}", report.HEADING, sep="\n", flush=True)
    for number, plan in enumerate(_plans(arguments, seed), start=1):
        outcome = asyncio.run(run(plan))
        outcomes.append(outcome)
        print(report.row(number, outcome), flush=True)
    print(report.summary(outcomes, seed))
    return int(any(outcome.findings for outcome in outcomes))


def _plans(arguments: argparse.Namespace, seed: int) -> Iterator[Plan]:
    if arguments.everything is not None:
        yield from [Plan.everything(seed, Place(arguments.everything))] * arguments.times
    elif arguments.cell is not None:
        yield from [Plan.random(arguments.cell)] * arguments.times
    else:
        seeds = random.Random(seed)
        deadline = time.monotonic() + arguments.minutes * 60
        while time.monotonic() < deadline:
            yield Plan.random(seeds.randrange(2**32))


if __name__ == "__main__":
    sys.exit(main())
