"""An input of an agent: which files it follows, and how their lines are joined and published."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from jetspark.logs.agent.multiline import Multiline

__all__ = ["COMPRESSED", "LogInput"]

#: Compressed by log rotation: not text.
COMPRESSED: Final = ("*.gz", "*.bz2", "*.xz", "*.zst", "*.zip", "*.lz4")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogInput:
    """Files that are read and published in the same way."""

    #: Unique among the inputs of an agent.
    name: str = ""
    #: Glob patterns of files, `**` for any depth.
    patterns: Sequence[str]
    #: Glob patterns of file names to skip.
    exclude: Sequence[str] = COMPRESSED
    #: The first part of its subjects.
    prefix: str = "logs"
    #: Joins lines to events; None: each line is an event.
    multiline: Multiline | None = None
