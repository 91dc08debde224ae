"""The logger of Spark's Python processes. It writes to stderr, which Spark keeps with its own logs."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["log_to_stderr", "logger"]

logger: Final = logging.getLogger("jetspark")

#: The format of Spark's own log lines.
_FORMAT: Final = "%(asctime)s %(levelname)s jetspark: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"


def log_to_stderr() -> None:
    """Write messages of level INFO and above to stderr, unless the process has set up logging itself."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
