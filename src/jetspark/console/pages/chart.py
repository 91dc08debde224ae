"""Lines over the last 15 minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import ui

from jetspark.console.pages.theme import COLOURS, GREY, GRID
from jetspark.console.series import SPAN
from jetspark.console.text import line

__all__ = ["Chart", "Line", "Points"]

#: Seconds that a chart shows at least.
_SHORTEST: Final = 120.0

Points = Sequence[tuple[float, float]]
#: The name of a line, and its points.
Line = tuple[str, Points]


class Chart:
    """A chart of lines. Call `update` when the points changed; what did not change is not sent again."""

    def __init__(
        self, title: str, lines: Callable[[], Sequence[Line]], *, unit: str, area: bool = False
    ) -> None:
        self._lines = lines
        self._area = area
        self._sent: object = None
        with ui.element("div").classes("panel"):
            with ui.element("div").classes("tools"):
                ui.label(title).classes("title")
                ui.label(unit).classes("soft")
            self._chart = ui.echart(_options()).classes("chart")
        self.update()

    def update(self) -> None:
        """Show the points as they are now."""
        lines = self._lines()
        # The values of dicts here are data, the keys never: a key with a colon in front would be run as code.
        series = [_series(name, points, self._area) for name, points in lines]
        if series == self._sent:
            return
        self._sent = series
        now = time.time()
        # Only the part of the span that has data, so that a new console has lines, too.
        first = min((points[0][0] for _, points in lines if points), default=now)
        start = max(now - SPAN, min(first, now - _SHORTEST))
        options = self._chart.options
        options["series"] = series
        options["legend"]["show"] = len(series) > 1
        options["xAxis"] |= {"min": round(start * 1000), "max": round(now * 1000)}
        self._chart.update()


def _series(name: str, points: Points, area: bool) -> dict[str, Any]:
    return {
        "name": line(name, 40),
        "type": "line",
        "showSymbol": len(points) == 1,
        "lineStyle": {"width": 1.6},
        **({"areaStyle": {"opacity": 0.1}} if area else {}),
        "data": [[round(at * 1000), round(value, 2)] for at, value in points],
    }


def _options() -> dict[str, Any]:
    text = {"color": GREY, "fontSize": 11}
    return {
        "animation": False,
        "color": list(COLOURS),
        "grid": {"left": 8, "right": 12, "top": 26, "bottom": 4, "containLabel": True},
        "legend": {"show": False, "top": 0, "right": 0, "itemHeight": 8, "textStyle": text, "type": "scroll"},
        # As drawn text, not as markup: names are data.
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "xAxis": {
            "type": "time",
            "axisLabel": {**text, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": GRID}},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "minInterval": 1,
            "axisLabel": text,
            "splitLine": {"lineStyle": {"color": GRID}},
        },
        "series": [],
    }
