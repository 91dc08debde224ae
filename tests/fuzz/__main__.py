"""`make fuzz`: mutated documents until the time is over. `ARGS="--seconds 3600 --seed 5"`."""

from __future__ import annotations

import argparse
import logging
import secrets
import sys
import time
from random import Random

from tests.fuzz.targets import TARGETS

#: Cases between two looks at the clock.
_BATCH = 1000


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long (300)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the cases of this seed (a random one)")
    options = parser.parse_args()
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:g} s", flush=True)
    random = Random(seed)
    logging.disable()
    weights = [target.share for target in TARGETS]
    counts = dict.fromkeys((target.name for target in TARGETS), 0)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for target in random.choices(TARGETS, weights, k=_BATCH):
            counts[target.name] += 1
            try:
                target.check(random)
            except AssertionError as failure:
                print(f"case {sum(counts.values())} of seed {seed}: {failure}", file=sys.stderr)
                raise
    print(f"{sum(counts.values())} cases: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
