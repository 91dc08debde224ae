"""Throughput and lag over the time of the demo, as a picture."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from jetspark.shipper.demo.pipeline import Sample

__all__ = ["draw"]


def draw(path: Path, samples: Sequence[Sample], killed: Sequence[float]) -> None:
    """Write a PNG file; `killed` are the seconds at which the job was."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to load, and only needed at the end

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (upper, lower) = plt.subplots(2, sharex=True, figsize=(8, 5), layout="constrained")
    seconds = [sample.seconds for sample in samples]
    for name in ("stored", "processed"):
        counts = [getattr(sample, name) for sample in samples]
        upper.step(seconds[1:], _rates(seconds, counts), where="pre", label=name)
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
    pairs = itertools.pairwise(zip(seconds, counts, strict=True))
    return [max(more - less, 0) / max(until - since, 1e-6) for (since, less), (until, more) in pairs]
