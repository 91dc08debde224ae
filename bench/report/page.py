"""Results as Markdown: a table for the terminal, and the whole page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.harness import SIZE, Column, Measurement, Table, of
from bench.report.plots import CPU, THROUGHPUT, draw, size_text
from bench.report.targets import target_table
from bench.results import Results, Run

PAGE: Final = "benchmarks.md"
DATA: Final = "benchmarks.json"

INTRODUCTION: Final = """
`make bench` measures everything on this page and writes it: jetspark, nats-py (on asyncio's loop and on
uvloop), natsrpy and a raw socket. The raw socket only moves bytes, so it is the ceiling of the machine.
Client and server share the machine.

Contenders take turns within one run, every other round backwards, so that a change of the machine's speed
affects all of them. The figures are medians; the smallest and the largest figure follow in brackets.
Absolute figures mean little on another machine; compare the ratios. Connecting and closing are not timed.
Client CPU is the time of the whole client process, in user and kernel mode. Each client is used in its
fastest ordinary way.

`make bench ARGS="fetch publish --rounds 3"` measures a part and prints it; `make bench ARGS=--help` shows
the choices. The figures are in [benchmarks.json](benchmarks.json), from which `make bench ARGS=--render`
writes the page again.
"""

_WIDTH: Final = 110


def write(results: Results, measurements: list[Measurement], directory: Path) -> Path:
    """Write the page, its plots and its data."""
    directory.mkdir(parents=True, exist_ok=True)
    results.save(directory / DATA)
    plots = draw(results, measurements, directory)
    page = directory / PAGE
    page.write_text("\n".join(_page(results, measurements, plots)) + "\n")
    return page


def _page(results: Results, measurements: list[Measurement], plots: Sequence[str]) -> Iterator[str]:
    yield "# Benchmarks"
    yield from _paragraphs(INTRODUCTION)
    yield from ("", "| | |", "|---|---|")
    yield f"| date | {results.date} |"
    for name, value in {**results.machine, **results.versions}.items():
        yield f"| {name} | {value} |"
    if results.quick:
        yield from (
            "",
            "**A quick run with very few messages, to check the benchmarks. The figures mean nothing.**",
        )
    yield from ("", "## Targets", "")
    yield from target_table(results)
    texts = {
        THROUGHPUT: "messages per second by size, for each client",
        CPU: f"microseconds of client CPU per message of {SIZE} bytes",
    }
    for plot in plots:
        yield from ("", f"![{texts[plot]}]({plot})")
    for measurement in measurements:
        if measurement.name in results.runs:
            yield from ("", f"## {measurement.title}")
            yield from _section(measurement, results.runs[measurement.name], results.date)


def _section(measurement: Measurement, run: Run, date: str) -> Iterator[str]:
    yield from _paragraphs(measurement.text)
    yield ""
    yield from tables(measurement, run)
    if run.date != date:
        yield from ("", f"Measured on {run.date}.")


def tables(measurement: Measurement, run: Run) -> Iterator[str]:
    """The tables of a measurement, as Markdown that is also readable as text."""
    first = run.at(SIZE)
    assert first is not None
    yield from _aligned(_rows(measurement, first))
    rounds = f"{run.rounds} round{'s' if run.rounds > 1 else ''} of {first.count:,}"
    fewer = "; slow contenders move fewer" if any(each.fewer > 1 for each in measurement.contenders) else ""
    yield from ("", f"`make bench ARGS={measurement.name}`: {rounds}{fewer}.")
    for name, error in first.errors.items():
        yield f"{name} failed: {error}."
    if len(run.tables) > 1:
        for column in measurement.columns:
            yield from ("", f"{column.title}, by size:", "")
            yield from _aligned(_rows_by_size(measurement, run, column))


def _rows(measurement: Measurement, table: Table) -> Iterator[list[str]]:
    main, *others = measurement.columns
    ratios = [("of", measurement.ceiling), ("x", measurement.peer)]
    ratios = [(kind, other) for kind, other in ratios if other in table.samples]
    yield [
        "",
        main.title,
        *(column.title for column in others),
        *(f"of {other}" if kind == "of" else f"x {other}" for kind, other in ratios),
    ]
    for name in table.samples:
        if not table.samples[name]:
            continue
        yield [
            name,
            _with_spread(main, table, name),
            *(_with_spread(column, table, name) for column in others),
            *(_ratio(kind, of(table, name, other, main.key)) for kind, other in ratios),
        ]


def _rows_by_size(measurement: Measurement, run: Run, column: Column) -> Iterator[list[str]]:
    ordered = sorted(run.tables, key=lambda table: table.size)
    yield ["", *(size_text(table.size) for table in ordered)]
    for contender in measurement.contenders:
        medians = [table.median(contender.name, column.key) for table in ordered]
        if contender.every_size and any(median is not None for median in medians):
            yield [contender.name, *("" if each is None else column.text.format(each) for each in medians)]


def _with_spread(column: Column, table: Table, name: str) -> str:
    values, median = table.values(name, column.key), table.median(name, column.key)
    if median is None:
        return ""
    text = column.text.format(median)
    if len(values) == 1:
        return text
    return f"{text} ({column.text.format(min(values))}-{column.text.format(max(values))})"


def _ratio(kind: str, ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{100 * ratio:.0f} %" if kind == "of" else f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def _aligned(rows: Iterator[list[str]]) -> Iterator[str]:
    """A Markdown table with columns of equal width, the figures on the right."""
    head, *body = rows
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]

    def line(row: list[str]) -> str:
        first, *others = row
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)),
        ]
        return f"| {' | '.join(cells)} |"

    yield line(head)
    yield f"|{'-' * (widths[0] + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths[1:])
    yield from map(line, body)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        yield ""
        yield textwrap.fill(
            " ".join(paragraph.split()), _WIDTH, break_long_words=False, break_on_hyphens=False
        )
