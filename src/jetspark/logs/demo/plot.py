"""A plot of throughput and lag over the time of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jetspark.logs.demo.pipeline import Sample

__all__ = ["draw"]

#: Seconds over which rates are averaged, because batches arrive in bursts.
_SPAN: Final = 3.0


def draw(path: Path, samples: Sequence[Sample], killed: Sequence[float]) -> None:
    """Write a PNG file; `killed` are the times in seconds at which the job was killed."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to load, and only needed at the end

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (upper, lower) = plt.subplots(2, sharex=True, figsize=(8, 5), layout="constrained")
    seconds = [sample.seconds for sample in samples]
    for name in ("stored", "processed"):
        counts = [getattr(sample, name) for sample in samples]
        upper.plot(seconds, _rates(seconds, counts), label=name)
    upper.set(title="jetspark demo", ylabel="lines per second")
    upper.legend(loc="upper left")
    lower.plot(seconds, [sample.lag for sample in samples], color="tab:red")
    lower.set(xlabel="seconds", ylabel="lag in lines")
    for axes in (upper, lower):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        for moment in killed:
            axes.axvline(moment, color="black", linestyle=":")
    for moment in killed:
        lower.annotate("Spark killed", (moment, 0), xytext=(4, 4), textcoords="offset points")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _rates(seconds: Sequence[float], counts: Sequence[int]) -> list[float]:
    """The rate per second over the last few seconds, for each sample."""
    rates = []
    back = 0
    for now, count in zip(seconds, counts, strict=True):
        while now - seconds[back] > _SPAN:
            back += 1
        rates.append((count - counts[back]) / max(now - seconds[back], _SPAN))
    return rates
