"""`python -m bench [measurement ...]`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from bench.harness import measure, say
from bench.measurements import everything
from bench.report import page
from bench.results import Results, Run, today

DOCS = Path(__file__).parents[1] / "docs"


def main() -> int:
    measurements = everything()
    names = [measurement.name for measurement in measurements]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Compare jetspark with its peers in one run. Without names, measures everything and "
        "writes docs/benchmarks.md; with names, measures these and prints them.",
    )
    parser.add_argument("names", nargs="*", metavar="measurement", help=", ".join(names))
    parser.add_argument("--rounds", type=int, help="interleaved rounds (3 or 5, by measurement)")
    parser.add_argument("--quick", action="store_true", help="one round of few messages, to see that it runs")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the page after a part, with the other figures as they were, or after a quick run",
    )
    parser.add_argument("--render", action="store_true", help="write the page again, without measuring")
    parser.add_argument("--docs", type=Path, default=DOCS, help="directory of the page (docs)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"unknown measurement {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    # Connections are lost on purpose, and at the end.
    logging.getLogger("jetspark").setLevel(logging.ERROR)

    data = arguments.docs / page.DATA
    if arguments.render:
        say(f"wrote {page.write(Results.load(data), measurements, arguments.docs)}")
        return 0
    results = Results.here(quick=arguments.quick)
    if arguments.names and arguments.write and data.exists():
        results.runs = Results.load(data).runs
    say(", ".join(f"{name} {value}" for name, value in {**results.machine, **results.versions}.items()))
    start = time.monotonic()
    failed = False
    for measurement in measurements:
        if arguments.names and measurement.name not in arguments.names:
            continue
        began = time.monotonic()
        tables = measure(measurement, rounds=arguments.rounds, quick=arguments.quick, say=say)
        rounds = max(len(samples) for table in tables for samples in table.samples.values())
        run = results.runs[measurement.name] = Run(today(), rounds, tables)
        failed |= any(table.errors for table in tables)
        print(f"\n{measurement.title}\n")
        print("\n".join(page.tables(measurement, run)), flush=True)
        say(f"{measurement.name}: {time.monotonic() - began:.0f} s")
    results.seconds = time.monotonic() - start
    say(f"measured in {results.seconds:.0f} s")
    if arguments.write or not (arguments.names or arguments.quick):
        say(f"wrote {page.write(results, measurements, arguments.docs)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
