"""The two plots of the page, as SVG: throughput by size, and CPU per message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.harness import SIZE, Contender, Measurement
from bench.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THROUGHPUT: Final = "benchmarks-throughput.svg"
CPU: Final = "benchmarks-cpu.svg"

COLORS: Final = {"jetspark": "#1f6fb4", "nats-py": "#e07b00", "natsrpy": "#2a9d5c", "raw socket": "#777777"}
#: Marks of contenders of the same client, in order.
MARKS: Final = ("o", "s", "^", "D")


def draw(results: Results, measurements: list[Measurement], directory: Path) -> list[str]:
    """Write the plots into `directory`. Returns their file names."""
    import matplotlib as mpl

    mpl.use("Agg")
    # The same results give the same file.
    mpl.rcParams.update({"svg.hashsalt": "jetspark", "svg.fonttype": "none", "font.family": "sans-serif"})
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    sized = [each for each in measurements if len(each.sizes) > 1 and each.name in results.runs]
    if not sized:
        return []
    _throughput(results, sized, directory / THROUGHPUT)
    _cpu(results, sized, directory / CPU)
    return [THROUGHPUT, CPU]


def _grid(count: int, width: float, height: float) -> tuple[Any, list[Axes]]:
    """A figure with one or two columns of axes."""
    import matplotlib.pyplot as plt

    columns = min(count, 2)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height * rows), squeeze=False, layout="constrained"
    )
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.set_visible(False)
    return figure, flat


def _throughput(results: Results, measurements: list[Measurement], path: Path) -> None:
    figure, axes = _grid(len(measurements), 10, 4)
    for ax, measurement in zip(axes, measurements, strict=False):
        tables = sorted(results.runs[measurement.name].tables, key=lambda table: table.size)
        drawn: dict[str, int] = {}
        for contender in measurement.contenders:
            points = [
                (table.size, rate)
                for table in tables
                if (rate := table.median(contender.name, "rate")) is not None
            ]
            if not contender.every_size or not points:
                continue
            number = drawn[contender.client] = drawn.get(contender.client, -1) + 1
            ax.plot(
                [size for size, _ in points],
                [rate for _, rate in points],
                label=contender.name,
                color=COLORS.get(contender.client),
                linestyle="--" if contender.uvloop else "-",
                marker=MARKS[number % len(MARKS)],
                markersize=4,
            )
        ax.set(title=measurement.title, xscale="log", yscale="log", ylabel="messages/s")
        sizes = [table.size for table in tables]
        ax.set_xticks(sizes, [size_text(size) for size in sizes])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
    _save(figure, path)


def _cpu(results: Results, measurements: list[Measurement], path: Path) -> None:
    figure, axes = _grid(len(measurements), 10, 3.2)
    for ax, measurement in zip(axes, measurements, strict=False):
        table = results.runs[measurement.name].at(SIZE)
        assert table is not None
        bars: list[tuple[Contender, float]] = []
        for contender in measurement.contenders:
            cpu = table.median(contender.name, "cpu")
            if cpu:
                bars.append((contender, cpu))
        bars.reverse()  # The first one is drawn at the top.
        drawn = ax.barh(
            [contender.name for contender, _ in bars],
            [cpu for _, cpu in bars],
            color=[COLORS.get(contender.client, "#999999") for contender, _ in bars],
        )
        ax.bar_label(
            drawn, [f"{cpu:.2f}" if cpu < 10 else f"{cpu:.0f}" for _, cpu in bars], padding=2, fontsize=7
        )
        ax.set(title=measurement.title, xscale="log", xlabel=f"us of client CPU per {SIZE}-byte message")
        ax.margins(x=0.15)
        ax.tick_params(axis="y", labelsize=7)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def size_text(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"
