"""`python -m bench [suite ...]`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import platform

#: The suites, each with its default number of messages.
SUITES = {
    "core": 100_000,
    "jetstream": 100_000,
    "publish": 100_000,
    "recovery": 100_000,
    "spark": 1_000_000,
    "sink": 500_000,
    "ship": 1_000_000,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Compare jetspark with its peers in one run."
    )
    parser.add_argument("suites", nargs="*", help=f"suites to run: {', '.join(SUITES)} (all)")
    parser.add_argument(
        "--messages",
        type=int,
        help="messages per measurement (100000; spark, ship 1000000; sink 500000); core uses 4 times as many",
    )
    parser.add_argument("--size", type=int, default=128, help="bytes per message (128)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; reports the median (5)")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; the suites are {', '.join(SUITES)}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    messages = arguments.messages
    for name in arguments.suites or SUITES:
        arguments.messages = messages or SUITES[name]
        asyncio.run(importlib.import_module(f"bench.{name}").run(arguments))


if __name__ == "__main__":
    main()
