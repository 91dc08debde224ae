"""The table of `docs/metrics.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["ROWS", "Row", "served_by"]

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


class Row(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    served_by: tuple[str, ...]
    meaning: str


def _rows() -> list[Row]:
    rows = re.findall(r"^\| `(jetspark_\w+)` \| (\w+) \|(.*?)\| (.*?) \| (.*?) \|$", PAGE.read_text(), re.M)
    return [
        Row(name, kind, tuple(re.findall("`(.+?)`", labels)), tuple(served.split(", ")), meaning)
        for name, kind, labels, served, meaning in rows
    ]


ROWS = _rows()


def served_by(who: str) -> set[str]:
    """The names of the metrics that a command serves."""
    return {row.name for row in ROWS if who in row.served_by}
