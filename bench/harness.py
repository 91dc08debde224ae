"""The measuring loop: interleaved rounds, their medians and ratios, printed as a table."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

Measure = Callable[[], Awaitable[float]]


@dataclasses.dataclass
class Contender:
    """One way to do the work. `run` returns the rate in messages per second."""

    name: str
    run: Measure
    rates: list[float] = dataclasses.field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


async def compete(
    title: str, contenders: Sequence[Contender], *, rounds: int, peer: str, ceiling: str
) -> None:
    """Run every contender once per round, in turn, and print the medians relative to `peer` and `ceiling`."""
    for number in range(rounds):
        # Every other round runs backwards, so that no contender always follows the same one.
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            gc.collect()
            await asyncio.sleep(0.1)
            contender.rates.append(await contender.run())
    by_name = {contender.name: contender for contender in contenders}
    print(f"\n{title}  (median of {rounds} rounds, messages/s)")
    print(f"  {'':<34}{'rate':>12}{'min':>12}{'max':>12}{'x ' + peer:>14}{'% ' + ceiling:>14}")
    for contender in contenders:
        against = contender.rate / by_name[peer].rate if peer in by_name else float("nan")
        share = 100 * contender.rate / by_name[ceiling].rate if ceiling in by_name else float("nan")
        print(
            f"  {contender.name:<34}{contender.rate:>12,.0f}{min(contender.rates):>12,.0f}"
            f"{max(contender.rates):>12,.0f}{against:>13.1f}x{share:>13.0f}%"
        )


class Stopwatch:
    """`with Stopwatch() as watch: ...; watch.rate(n)`."""

    def __enter__(self) -> Stopwatch:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = time.perf_counter() - self._start

    def rate(self, count: int) -> float:
        return count / self.seconds
