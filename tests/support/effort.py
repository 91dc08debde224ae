"""How much the tests try. `make test` tries enough for every change; `make test THOROUGH=1` much more."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["THOROUGH", "effort"]

THOROUGH: Final = os.environ.get("THOROUGH", "0") not in ("", "0")


def effort(usual: int, thorough: int) -> int:
    """How many rows, cases or kills."""
    return thorough if THOROUGH else usual
