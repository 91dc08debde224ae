"""Paths as users write them in contexts, variables and flags."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["expanded"]


def expanded(path: str | Path) -> Path:
    """A path with its variables and `~`. An unknown user stays as it is, other than by `Path.expanduser`."""
    return Path(os.path.expanduser(os.path.expandvars(path)))
