"""`python -m chaos [--minutes 20] [--seed N] [--cell N]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Callable, Container, Iterator

from chaos import report
from chaos.cell import run
from chaos.faults import FAULTS
from chaos.plan import Plan
from chaos.site import Place
from chaos.workloads import WORKLOADS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Run random workloads under random faults; compare what was written, stored and read.",
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no cell after so long (20)")
    parser.add_argument("--seed", type=int, help="determines the cells (random)")
    parser.add_argument("--cell", type=int, help="run the one cell with this seed")
    parser.add_argument("--everything", choices=list(Place), help="one cell of all workloads and all faults")
    parser.add_argument("--workloads", type=_names(WORKLOADS), default=(), help="only these: a,b")
    parser.add_argument("--faults", type=_names(FAULTS), default=(), help="only these: a,b")
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
        yield from [_plan(arguments, arguments.cell)] * arguments.times
    else:
        seeds = random.Random(seed)
        deadline = time.monotonic() + arguments.minutes * 60
        while time.monotonic() < deadline:
            yield _plan(arguments, seeds.randrange(2**32))


def _plan(arguments: argparse.Namespace, seed: int) -> Plan:
    return Plan.random(seed, only_workloads=arguments.workloads, only_faults=arguments.faults)


def _names(known: Container[str]) -> Callable[[str], list[str]]:
    """Parses names with commas between them."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
