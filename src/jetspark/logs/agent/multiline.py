"""Rules that say which lines belong to one event, such as a stack trace. No I/O.

A rule is a small state machine. The first line of an event sets the state; each further line continues the
event and sets the next state, or does not match and begins another event. Patterns are matched at the start
of a line. The state depends on the lines of the event alone, so reading an event again gives the same event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from jetspark.errors import UsageError
from jetspark.logs.agent.containers import CONTAINERS

__all__ = ["MAX_LINES", "PRESETS", "TIMEOUT", "Multiline"]

#: The default of `timeout`, in seconds, and of `max_lines`.
TIMEOUT: Final = 3.0
MAX_LINES: Final = 1000
_MOST_LINES: Final = 1_000_000

#: For each state, the patterns of the lines that continue the event, and the states that they lead to. In a
#: state that has no patterns, the event is complete.
_States: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]

#: The patterns for the first line of an event; if none matches, the state is `_MESSAGE`.
_FIRST: Final = "first"
_MESSAGE: Final = "message"

_INDENTED: Final = r"[ \t]"
_BLANK: Final = r"\s*$"
_THROWN: Final = r"(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*(?::|\s*$)"
_TRACEBACK: Final = r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):"
_CHAINED: Final = r"During handling of the above exception|The above exception was the direct cause"
_GOROUTINE: Final = r"goroutine \d+ (?:gp=\S+ )?.*\["

PRESETS: Final[Mapping[str, _States]] = {
    "java": {
        _FIRST: ((rf'Exception in thread "|{_THROWN}', "trace"),),
        _MESSAGE: ((_INDENTED, _MESSAGE), (_THROWN, "trace"), ("Caused by: ", "trace")),
        "trace": ((rf"{_INDENTED}|Caused by: |Suppressed: ", "trace"),),
    },
    "python": {
        _FIRST: ((_TRACEBACK, "trace"),),
        _MESSAGE: ((_TRACEBACK, "trace"), (_INDENTED, _MESSAGE)),
        # The first line of a trace that is not indented is the exception itself.
        "trace": ((_INDENTED, "trace"), (r"\S", "raised")),
        "raised": ((_BLANK, "between"), (_INDENTED, "raised")),
        "between": ((_CHAINED, "chained"),),
        "chained": ((_TRACEBACK, "trace"), (_BLANK, "chained")),
    },
    "go": {
        _FIRST: ((r"panic: |fatal error: |runtime: ", "panic"), (_GOROUTINE, "stack")),
        _MESSAGE: ((_GOROUTINE, "stack"), (_INDENTED, _MESSAGE)),
        "panic": ((_GOROUTINE, "stack"), (rf"{_BLANK}|{_INDENTED}|panic: |fatal error: |\[signal ", "panic")),
        "stack": (
            (_BLANK, "between"),
            (rf"{_INDENTED}|\S+\(.*\)\s*$|created by |\.\.\.additional frames", "stack"),
            (r"exit status \d", "complete"),
        ),
        "between": (
            (_GOROUTINE, "stack"),
            (rf"{_BLANK}|[a-z]\w+ +0x[0-9a-f]+\s*$", "between"),  # Registers.
            (r"exit status \d", "complete"),
        ),
    },
    "json": {
        _FIRST: ((r"[\[{]", "open"),),
        _MESSAGE: ((_INDENTED, _MESSAGE),),
        "open": ((r"[\]}]\s*$", "complete"), (rf'{_INDENTED}|[\]}}"]|{_BLANK}', "open")),
    },
}


class Multiline:
    """A rule: `preset`, or the pattern of the `start` of an event, or of its `continuation` lines.

    With a `container`, the lines are those of a container runtime: their parts are joined, and the rule, if
    there is one, is about their text. A line of the other output ends an event.

    An event also ends when its file has not changed for `timeout` seconds. One with more than `max_lines` is
    cut. Raises `UsageError`.
    """

    def __init__(
        self,
        preset: str = "",
        *,
        start: str = "",
        continuation: str = "",
        container: str = "",
        timeout: float = TIMEOUT,
        max_lines: int = MAX_LINES,
    ) -> None:
        rules = sum(map(bool, (preset, start, continuation)))
        if rules > 1 or not (rules or container):
            raise UsageError("a multi-line rule needs exactly one of preset, start and continuation")
        if container and container not in CONTAINERS:
            raise UsageError(f"container must be one of {', '.join(CONTAINERS)}, not {container!r}")
        if preset and preset not in PRESETS:
            raise UsageError(f"multi-line preset must be one of {', '.join(PRESETS)}, not {preset!r}")
        if not 0.001 <= timeout <= 1e9:
            raise UsageError(f"multi-line timeout must be from 0.001 to 1000000000, not {timeout!r}")
        if not 1 <= max_lines <= _MOST_LINES:
            raise UsageError(f"multi-line max_lines must be from 1 to {_MOST_LINES}, not {max_lines!r}")
        self.timeout = timeout
        self.max_lines = max_lines
        #: Parses a line of a container; None for other lines.
        self.unwrap = CONTAINERS[container] if container else None
        states = PRESETS[preset] if preset else _states_of(start, continuation) if rules else {}
        self._states: dict[str, list[tuple[Callable[[bytes], object], str]]] = {
            name: [(re.compile(pattern.encode()).match, target) for pattern, target in patterns]
            for name, patterns in states.items()
        }

    def begin(self, line: bytes) -> str:
        """The state after the first line of an event."""
        return self._match(_FIRST, line) or _MESSAGE

    def follow(self, state: str, line: bytes) -> str | None:
        """The state after a line that continues the event; None if it begins another one."""
        return self._match(state, line)

    def is_complete(self, state: str) -> bool:
        """Whether no line can continue the event."""
        return state not in self._states

    def _match(self, state: str, line: bytes) -> str | None:
        for match, target in self._states.get(state, ()):
            if match(line):
                return target
        return None


def _states_of(start: str, continuation: str) -> _States:
    pattern = start or continuation
    try:
        re.compile(pattern.encode())
    except (re.error, UnicodeEncodeError) as error:
        raise UsageError(f"invalid multi-line pattern {pattern!r}: {error}") from None
    return {_MESSAGE: ((f"(?!{start})" if start else continuation, _MESSAGE),)}
