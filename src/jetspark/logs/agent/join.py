"""Joins lines to events, by a multi-line rule. No I/O.

Where an event ends depends on the bytes from its start on, and on `ends`: offsets at which events were ended
because nothing followed for a while. They are saved before the event is sent, so reading again from the start
of any event gives the same events at the same offsets.

The parts of a container's lines may alternate with lines of its other output. Events that do so are a group:
reading begins before or after all of them, so all but the last take no bytes of the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jetspark.logs.agent.multiline import Multiline
from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line

__all__ = ["join_events"]


def join_events(
    data: bytes, offset: int, limit: int, rule: Multiline, *, ends: Sequence[int] = (), final: bool = False
) -> tuple[list[Line], int]:
    """The events of `data`, which begins at `offset`, and how many bytes they take.

    An event longer than `limit` bytes is cut, where possible between two lines; its pieces in a row are the
    event. A last event that may continue is kept for later, unless `final`. `ends` ascend.
    """
    events: list[Line] = []
    used = 0
    for end in ends:
        size = end - offset
        if used < size <= len(data):
            _join(data[used:size], offset + used, limit, rule, events, final=True)
            used = size
    used += _join(data[used:], offset + used, limit, rule, events, final=final)
    return events, used


def _join(data: bytes, offset: int, limit: int, rule: Multiline, events: list[Line], *, final: bool) -> int:
    lines, used = split_lines(data, offset, limit, final=final)
    group = _Group()
    unwrap = rule.unwrap
    for line in lines:
        output, ended, text = b"", True, line.data
        if unwrap is not None:
            output, ended, text = unwrap(line.data)
            group.end_others(output)
        event = group.open.get(output)
        following = event.follow(rule, text) if event is not None else None
        fits = group.number < rule.max_lines and line.offset + len(line.data) - group.start <= limit
        if event is not None and following is not None and fits and not line.cut:
            event.lines.append(line)
            event.state = following
        else:
            if following is None:
                group.open.pop(output, None)
            if line.cut or not fits or not group.open:
                group.flush(events)
            if line.cut:
                events.append(line)
                continue
            event = group.begin(output, line, rule.begin(text))
        group.number += 1
        event.partial = not ended
        if ended and rule.is_complete(event.state):
            del group.open[output]
            if not group.open:
                group.flush(events)
    if final:
        group.flush(events, final=True)
    elif group.events:
        used = group.start - offset
    return used


@dataclasses.dataclass(slots=True, eq=False)
class _Event:
    lines: list[Line]
    state: str
    #: Whether its last line is partial: the next line of the output belongs to it, whatever it is.
    partial: bool = False

    def follow(self, rule: Multiline, text: bytes) -> str | None:
        """The state after a further line; None if it does not belong to the event."""
        return self.state if self.partial else rule.follow(self.state, text)

    def joined(self, *, cut: bool) -> Line:
        """The event as one line; with `cut`, as a piece that continues."""
        first, last = self.lines[0], self.lines[-1]
        if first is last and not cut:
            return first
        data = b"\n".join([line.data for line in self.lines])
        if cut:
            return Line(first.offset, data + b"\n", cut=True)
        return Line(first.offset, data, ended=last.ended)


class _Group:
    """The events since the last offset at which no event was open."""

    def __init__(self) -> None:
        #: In the order of their first lines.
        self.events: list[_Event] = []
        #: Those that may continue, by their output.
        self.open: dict[bytes, _Event] = {}
        #: Where it begins in the file, and the number of its lines.
        self.start = self.number = 0

    def begin(self, output: bytes, line: Line, state: str) -> _Event:
        if not self.events:
            self.start, self.number = line.offset, 0
        event = self.open[output] = _Event([line], state)
        self.events.append(event)
        return event

    def end_others(self, output: bytes) -> None:
        """End the events of other outputs, unless the rest of a line is missing."""
        for each, event in list(self.open.items()):
            if each != output and not event.partial:
                del self.open[each]

    def flush(self, events: list[Line], *, final: bool = False) -> None:
        """Add the events to `events`. Those that are still open are cut, unless `final`."""
        cut = () if final else self.open.values()
        joined = [each.joined(cut=each in cut) for each in self.events]
        if len(joined) > 1:
            size = sum(line.size for each in self.events for line in each.lines)
            joined = [each._replace(taken=0) for each in joined[:-1]] + [joined[-1]._replace(taken=size)]
        events += joined
        self.events.clear()
        self.open.clear()
