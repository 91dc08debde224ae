"""Paths as users write them in contexts, variables and flags."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["expanded"]


def expanded(path: str | Path) -> Path:
    """Expand variables and `~`. Unlike `Path.expanduser`, leaves an unknown user as it is."""
    return Path(os.path.expanduser(os.path.expandvars(path)))
