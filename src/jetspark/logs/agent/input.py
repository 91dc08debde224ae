"""An input of an agent: files or the journal, and how their lines are joined and published."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from jetspark.errors import UsageError
from jetspark.logs.agent.multiline import Multiline

__all__ = ["COMPRESSED", "JournalSource", "LogInput"]

#: Compressed by log rotation: not text.
COMPRESSED: Final = ("*.gz", "*.bz2", "*.xz", "*.zst", "*.zip", "*.lz4")


_MATCH: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}=[^\0]*|\+", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JournalSource:
    """Which entries of systemd's journal are read."""

    #: As for journalctl: `FIELD=value`, and `+` for "or". Empty: all entries.
    matches: Sequence[str] = ()
    #: The directory of the journal; empty for that of this machine.
    directory: str = ""

    def __post_init__(self) -> None:
        for each in self.matches:
            if _MATCH.fullmatch(each) is None:
                raise UsageError(f"match {each!r} must be FIELD=value or +")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogInput:
    """Files, or the journal, that are read and published in the same way."""

    #: Unique among the inputs of an agent.
    name: str = ""
    #: Glob patterns of files, `**` for any depth.
    patterns: Sequence[str] = ()
    #: Glob patterns of file names to skip.
    exclude: Sequence[str] = COMPRESSED
    #: The journal, in place of files.
    journal: JournalSource | None = None
    #: The first part of its subjects.
    prefix: str = "logs"
    #: Joins lines to events; None: each line is an event.
    multiline: Multiline | None = None
