"""The options of an agent, checked at construction. Durations are seconds, sizes bytes."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jetspark.errors import UsageError
from jetspark.logs.agent.file import LEAST_LINE
from jetspark.logs.agent.input import COMPRESSED, LogInput
from jetspark.logs.agent.multiline import Multiline
from jetspark.logs.compression import ENCODINGS, compressor
from jetspark.logs.format.message import subject_of

__all__ = ["MAX_LINE", "ShipOptions", "default_positions"]

#: The default of `max_line`.
MAX_LINE: Final = 256 * 1024

_LARGEST_LINE: Final = 64 * 1024 * 1024


def default_positions() -> Path:
    """The default position file: `jetspark/ship.json` under `XDG_STATE_HOME`."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.path.expanduser(state)) / "jetspark" / "ship.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShipOptions:
    """The options of an agent. `inputs` take the place of `patterns` to `multiline` and of `prefix`."""

    #: Glob patterns of files, `**` for any depth. Empty: standard input, which has no positions.
    patterns: Sequence[str] = ()
    #: Glob patterns of file names to skip.
    exclude: Sequence[str] = COMPRESSED
    #: Joins lines to events; None: each line is an event.
    multiline: Multiline | None = None
    inputs: Sequence[LogInput] = ()
    host: str = dataclasses.field(default_factory=socket.gethostname)
    #: The first part of subjects: `<prefix>.<partition>.<host>`.
    prefix: str = "logs"
    #: The number of partitions. A hash of its name assigns a host to one of them.
    partitions: int = 16
    positions: Path = dataclasses.field(default_factory=default_positions)
    #: Begin at the end of files that exist at the start and have no position.
    from_end: bool = False
    #: Ship the existing lines, then end.
    once: bool = False
    #: Bytes at which a line is cut.
    max_line: int = MAX_LINE
    #: `gzip`, `zstd`, or empty.
    compress: str = ""
    #: The maximum number and total bytes of messages in flight.
    window: int = 4096
    window_bytes: int = 16 * 1024 * 1024
    #: The interval between checks of the files, and of the patterns for new ones.
    poll: float = 0.2
    #: Close a file that no pattern matches any more after this long without new lines.
    close_after: float = 60.0
    #: The interval between saves of the positions.
    save_every: float = 1.0
    #: How long `stop` waits for acknowledgements.
    grace: float = 10.0
    #: Whether the pause switch is obeyed.
    control: bool = True

    def __post_init__(self) -> None:
        self._check("partitions", self.partitions, 1, 100_000)
        self._check("window", self.window, 1, 1_000_000)
        self._check("window_bytes", self.window_bytes, 1024, 1 << 40)
        # The fingerprint of a file must be known before the first piece of its first line is shipped.
        self._check("max_line", self.max_line, LEAST_LINE, _LARGEST_LINE)
        for option in ("poll", "close_after", "save_every", "grace"):
            self._check(option, getattr(self, option), 0.001, 1e9)
        if not self.host:
            raise UsageError("host is empty", hint="Name this host with --host")
        if self.compress:
            if self.compress not in ENCODINGS:
                raise UsageError(f"compress must be one of {', '.join(ENCODINGS)}, not {self.compress!r}")
            compressor(self.compress)
        if self.inputs and self.patterns:
            raise UsageError("an agent has patterns or inputs, not both")
        names = [each.name for each in self.inputs]
        if len(set(names)) < len(names):
            raise UsageError("the names of inputs must differ")
        self.subjects  # noqa: B018 - the property checks them

    @property
    def one_input(self) -> LogInput:
        """The input of `patterns`, or standard input."""
        return LogInput(
            patterns=self.patterns,
            exclude=self.exclude,
            prefix=self.prefix,
            multiline=self.multiline,
        )

    @property
    def file_inputs(self) -> Sequence[LogInput]:
        """The inputs that are files; empty for standard input."""
        return self.inputs or ((self.one_input,) if self.patterns else ())

    def subject_of(self, source: LogInput) -> str:
        """The subject of the lines of an input. Raises `UsageError`."""
        return subject_of(source.prefix, self.host, self.partitions)

    @property
    def subjects(self) -> Sequence[str]:
        """The subjects of all inputs, each once. Raises `UsageError`."""
        return tuple(dict.fromkeys(map(self.subject_of, self.inputs or (self.one_input,))))

    def _check(self, option: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:
            raise UsageError(f"{option} must be from {least:g} to {most:g}, not {value!r}")
