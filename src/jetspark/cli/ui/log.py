"""The messages of commands on stderr: a line of text, or with `--log-format json` one JSON object a line.

The format belongs to the process, because the line for an error is written after the command has ended.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from jetspark.cli.ui.escape import escape_line

__all__ = ["is_json", "reset", "use_json", "write"]

#: The name in each object; None for text.
_logger: str | None = None


def reset() -> None:
    """Write text from now on."""
    global _logger
    _logger = None


def use_json(logger: str) -> None:
    """Write JSON from now on; `logger` names the command."""
    global _logger
    _logger = logger


def is_json() -> bool:
    return _logger is not None


def write(level: str, message: str, **fields: Any) -> None:
    """Write one line. Text has no fields and no level."""
    if _logger is None:
        sys.stderr.write(f"jetspark: {escape_line(message)}\n")
        return
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "logger": _logger, "message": message, **fields}
    # Everything but ASCII is escaped: the line is safe on a terminal.
    sys.stderr.write(json.dumps(record) + "\n")
    sys.stderr.flush()
