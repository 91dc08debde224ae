"""Counters and levels over time: samples of the last 15 minutes, in bounded memory, and the rate of now."""

from __future__ import annotations

from array import array
from typing import Final

__all__ = ["SPAN", "STEP", "Meter", "Series"]

#: Seconds that a series covers, and seconds between two of its samples.
SPAN: Final = 900.0
STEP: Final = 5.0
_LENGTH: Final = int(SPAN / STEP)
#: Seconds that a rate is measured over at least.
_SHORTEST: Final = 1.0


class Meter:
    """The growth a second of a counter, between its last two readings."""

    __slots__ = ("_count", "_time", "rate")

    def __init__(self, time: float, count: float) -> None:
        self._time, self._count = time, count
        self.rate = 0.0

    def read(self, time: float, count: float) -> None:
        """Take a reading. A counter that shrinks has begun again at 0."""
        if time - self._time < _SHORTEST:
            return
        grown = count - self._count if count >= self._count else count
        self.rate = grown / (time - self._time)
        self._time, self._count = time, count


class Series:
    """Samples of several columns. A sample that comes too early is dropped: counters lose nothing by that."""

    __slots__ = ("_columns", "_times")

    def __init__(self, columns: int) -> None:
        self._times = array("d")
        self._columns = [array("d") for _ in range(columns)]

    def __len__(self) -> int:
        return len(self._times)

    def add(self, time: float, *values: float) -> bool:
        """Add a sample, with the time in seconds since 1970. Returns whether it was taken."""
        # A little early is on time: samples come at intervals that are not exact.
        if self._times and 0 <= time - self._times[-1] < STEP * 0.9:
            return False
        self._times.append(time)
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        if len(self._times) > 2 * _LENGTH:
            for each in (self._times, *self._columns):
                del each[:_LENGTH]
        return True

    def level(self, column: int) -> list[tuple[float, float]]:
        """The times and values of a column."""
        first = self._first()
        return list(zip(self._times[first:], self._columns[column][first:], strict=True))

    def rate(self, column: int) -> list[tuple[float, float]]:
        """The growth a second of a counter. A counter that shrinks was set back: that is not growth."""
        first = self._first()
        times, values = self._times[first:], self._columns[column][first:]
        return [
            (times[index], max(values[index] - values[index - 1], 0.0) / (times[index] - times[index - 1]))
            for index in range(1, len(times))
            if times[index] > times[index - 1]
        ]

    def _first(self) -> int:
        """The first sample that is not too old."""
        if not self._times:
            return 0
        oldest = self._times[-1] - SPAN
        return next(index for index, time in enumerate(self._times) if time >= oldest)
