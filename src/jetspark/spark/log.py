"""What jetspark says in Spark's Python processes goes to their stderr, where Spark keeps its own log."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["logger", "show"]

logger: Final = logging.getLogger("jetspark")

#: As Spark writes it.
_FORMAT: Final = "%(asctime)s %(levelname)s jetspark: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"


def show() -> None:
    """Let information be seen, unless somebody has set up logging in this process."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
