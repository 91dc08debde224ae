"""What somebody sees of the demo: a table in its place on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import dataclasses
import sys
from types import TracebackType
from typing import Any, Final

__all__ = ["Sample", "View"]

#: Seconds between two lines where there is no terminal.
_EVERY: Final = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """How far everything is at a moment."""

    seconds: float = 0.0
    written: int = 0
    stored: int = 0
    #: Lines of the stream that the job is done with.
    processed: int = 0
    dead_letters: int = 0

    @property
    def lag(self) -> int:
        """Lines that are stored, and not yet processed."""
        return max(self.stored - self.processed, 0)


class View:
    """Shows samples, and keeps them."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._live: Any = None
        self._note = "Hosts write, agents ship, Spark starts"
        self._shown = -_EVERY

    @property
    def last(self) -> Sample:
        """The latest sample."""
        return self.samples[-1] if self.samples else Sample()

    def __enter__(self) -> View:
        if sys.stdout.isatty():
            from rich.live import Live  # noqa: PLC0415 - not needed where nobody looks

            self._live = Live(self._table(), transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Something happened."""
        self._note = text
        if self._live is not None:
            self._live.update(self._table())
        else:
            self._say(text)

    def show(self, sample: Sample) -> None:
        """Show how far it is."""
        self.samples.append(sample)
        if self._live is not None:
            self._live.update(self._table())
        elif sample.seconds >= self._shown + _EVERY:
            self._shown = sample.seconds
            self._say("  ".join(f"{name} {value}" for name, value in self._values()))

    def _say(self, text: str) -> None:
        sys.stdout.write(f"[{self.last.seconds:5.1f} s] {text}\n")
        sys.stdout.flush()

    def _values(self) -> list[tuple[str, str]]:
        now = self.last
        back = next((each for each in reversed(self.samples) if now.seconds - each.seconds >= 5.0), Sample())
        rate = max(now.processed - back.processed, 0) / max(now.seconds - back.seconds, 1e-6)
        return [
            ("written", f"{now.written:,}"),
            ("stored", f"{now.stored:,}"),
            ("processed", f"{now.processed:,}"),
            ("lag", f"{now.lag:,}"),
            ("dead letters", f"{now.dead_letters:,}"),
            ("rows/s", f"{rate:,.0f}"),
        ]

    def _table(self) -> Any:
        from rich.table import Table  # noqa: PLC0415

        table = Table(title="jetspark demo", caption=self._note, min_width=60)
        for name, _ in self._values():
            table.add_column(name, justify="right")
        table.add_row(*(value for _, value in self._values()))
        return table
