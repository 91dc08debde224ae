"""The progress of the demo: a live table on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Self

from jetspark.cli.args.units import show_count
from jetspark.cli.ui.output import Output

if TYPE_CHECKING:
    from jetspark.logs.demo.pipeline import Pipeline, Sample

__all__ = ["DemoView"]

#: Seconds between two lines without a terminal.
_EVERY: Final = 5.0
#: Seconds over which the rate is computed.
_SPAN: Final = 5.0


class DemoView:
    """Shows samples and notes while the context lasts; nothing with --json."""

    def __init__(self, out: Output, pipeline: Pipeline) -> None:
        self._out = out
        self._pipeline = pipeline
        self._live: Any = None
        self._note = "the hosts write, the agents ship, Spark starts"
        self._next = 0.0

    def __enter__(self) -> Self:
        if sys.stdout.isatty() and not self._out.json:
            from rich.live import Live  # noqa: PLC0415 - loaded when something is shown

            self._live = Live(self._table(), transient=True)
            self._live.start()
        else:
            self.note(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Show what happens now."""
        self._note = text
        if self._live is not None:
            self._live.update(self._table())
        else:
            self._print(text)

    def show(self, sample: Sample) -> Sample:
        """Show a sample, and return it."""
        if self._live is not None:
            self._live.update(self._table())
        elif sample.seconds >= self._next:
            self._next = sample.seconds + _EVERY
            values = "  ".join(f"{name} {value}" for name, value in self._values())
            self._print(values)
        return sample

    def _print(self, text: str) -> None:
        if not self._out.json:
            self._out.text(f"{self._pipeline.last.seconds:5.1f} s  {text}")

    def _values(self) -> list[tuple[str, str]]:
        samples = self._pipeline.samples
        now = self._pipeline.last
        back = next((each for each in reversed(samples) if now.seconds - each.seconds >= _SPAN), now)
        rate = (now.processed - back.processed) / max(now.seconds - back.seconds, 1e-6)
        counts = {name: getattr(now, name) for name in ("written", "shipped", "stored", "processed", "lag")}
        return [
            *((name, show_count(count)) for name, count in counts.items()),
            ("dead letters", show_count(now.dead_letters)),
            ("rows/s", show_count(max(round(rate), 0))),
        ]

    def _table(self) -> Any:
        from rich.table import Table  # noqa: PLC0415

        table = Table(title="jetspark demo", caption=self._note, min_width=70)
        for name, _ in self._values():
            table.add_column(name, justify="right")
        table.add_row(*(value for _, value in self._values()))
        return table
