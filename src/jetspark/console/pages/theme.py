"""How the console looks: one accent colour, light or dark as the system is, nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["ACCENT", "COLOURS", "FAVICON", "GREY", "GRID", "STYLE"]

ACCENT: Final = "#3672f0"
#: Of lines in a chart, readable on light and dark ground.
COLOURS: Final = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7", "#ef4444", "#06b6d4", "#84cc16", "#ec4899")
GREY: Final = "#8a93a3"
GRID: Final = "rgba(138, 147, 163, 0.18)"

FAVICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" '
    f'fill="{ACCENT}"/><path d="M18 4 8 18h6l-2 10 11-15h-6z" fill="#fff"/></svg>'
)

STYLE: Final = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
