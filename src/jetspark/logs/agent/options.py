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
    """The options of an agent. `inputs` take the place of `patterns` to `multiline` and of `prefix`.

    Attributes:
        patterns: Glob patterns of files, `**` for any depth. By default standard input, which has no
            positions.
        exclude: Glob patterns of file names to skip; by default those of compressed files.
        multiline: Joins lines to events; by default each line is an event.
        inputs: Several inputs, each with its own patterns; none by default.
        host: Name of this host; by default that of the system.
        prefix: First part of subjects, `logs` by default: `<prefix>.<partition>.<host>`.
        partitions: Number of partitions, 16 by default. A hash of its name assigns a host to one of them.
        positions: File that keeps the positions; by default `jetspark/ship.json` in `XDG_STATE_HOME`.
        from_end: Begin at the end of files that exist at the start and have no position; by default at their
            beginning.
        once: Ship the existing lines, then end; by default the agent keeps following the files.
        max_line: Bytes at which a line is cut; 256 KiB by default.
        compress: `gzip` or `zstd`; by default payloads are not compressed.
        window: Most messages in flight; 4096 by default.
        window_bytes: Most bytes in flight; 16 MiB by default.
        poll: Seconds between two checks of the files, and of the patterns for new ones; 0.2 by default.
        close_after: Seconds without new lines after which a file that no pattern matches any more is closed;
            60 by default.
        save_every: Seconds between two saves of the positions; 1 by default.
        grace: Seconds that `stop` waits for acknowledgements; 10 by default.
        control: Whether to obey the pause switch; True by default.
    """

    patterns: Sequence[str] = ()
    exclude: Sequence[str] = COMPRESSED
    multiline: Multiline | None = None
    inputs: Sequence[LogInput] = ()
    host: str = dataclasses.field(default_factory=socket.gethostname)
    prefix: str = "logs"
    partitions: int = 16
    positions: Path = dataclasses.field(default_factory=default_positions)
    from_end: bool = False
    once: bool = False
    max_line: int = MAX_LINE
    compress: str = ""
    window: int = 4096
    window_bytes: int = 16 * 1024 * 1024
    poll: float = 0.2
    close_after: float = 60.0
    save_every: float = 1.0
    grace: float = 10.0
    control: bool = True

    def __post_init__(self) -> None:
        self._check("partitions", self.partitions, 1, 100_000)
        self._check("window", self.window, 1, 1_000_000)
        self._check("window_bytes", self.window_bytes, 1024, 1 << 40)
        # The fingerprint of a file must be known before the first piece of its first line is shipped.
        self._check("max_line", self.max_line, LEAST_LINE, _LARGEST_LINE)
        for option in ("poll", "close_after", "save_every", "grace"):
            self._check(option, getattr(self, option), 0.001, 1_000_000_000)
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
            raise UsageError(f"{option} must be from {least} to {most}, not {value!r}")
