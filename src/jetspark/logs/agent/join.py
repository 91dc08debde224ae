"""Joins lines to events, by a multi-line rule. No I/O.

Where an event ends depends on the bytes from its start on, and on `ends`: offsets at which events were ended
because nothing followed for a while. They are saved before the event is sent, so reading again from the start
of any event gives the same events at the same offsets.
"""

from __future__ import annotations

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
    first = last = Line(offset, b"")
    number, state = 0, ""  # Lines of the open event, 0 if there is none, and its state.
    for line in lines:
        following = rule.follow(state, line.data) if number else None
        fits = number < rule.max_lines and line.offset + len(line.data) - first.offset <= limit
        if following is not None and fits and not line.cut:
            last, number, state = line, number + 1, following
        else:
            if number:
                events.append(_event(data, offset, first, last, cut=following is not None))
                number = 0
            if line.cut:
                events.append(line)
                continue
            first = last = line
            number, state = 1, rule.begin(line.data)
        if rule.is_complete(state):
            events.append(_event(data, offset, first, last))
            number = 0
    if number and final:
        events.append(_event(data, offset, first, last))
    elif number:
        used = first.offset - offset
    return used


def _event(data: bytes, offset: int, first: Line, last: Line, *, cut: bool = False) -> Line:
    if cut:
        end = last.offset + last.size
        return Line(first.offset, data[first.offset - offset : end - offset], cut=True)
    if first is last:
        return first
    end = last.offset + len(last.data)
    return Line(first.offset, data[first.offset - offset : end - offset], ended=last.ended)
