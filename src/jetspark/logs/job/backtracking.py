"""How long a pattern of the user can take on a line. Pure.

Java's matcher backtracks: repetitions that can match the same text, as in `.*? .*? .*`, divide it among them
in all possible ways before a line does not match. Nothing can interrupt Spark while it does so. So the number
of steps is bounded before it starts, by the length of the lines that a pattern is tried on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

# A pattern as a tree: not public, and the same since Python 3.11.
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias

__all__ = ["degree", "longest"]

#: The steps for one line: a few seconds, or 64 KiB that two repetitions divide.
_MAX_STEPS: Final = 1 << 31
#: A repetition of fewer is a constant factor.
_MANY: Final = 16

#: Characters as bits: Latin-1, and one bit for all others.
_Chars: TypeAlias = int
_OTHERS: Final = 256
_ALL: Final = (1 << (_OTHERS + 1)) - 1
#: The repetitions before a place that can still take the text up to it: the characters of each, and those
#: that the text has in any case; with the number of repetitions in a row that can share a text.
_Open: TypeAlias = dict[tuple[_Chars, _Chars], float]
_Nodes: TypeAlias = Iterable[tuple[Any, Any]]
#: More of them than this are simplified.
_MAX_OPEN: Final = 64


def longest(pattern: str) -> int:
    """The longest line in characters that a pattern may be tried on; 0 if only short ones are safe."""
    power = degree(pattern)
    if power == math.inf:
        return 0
    low, high = 0, _MAX_STEPS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if math.comb(middle, int(power)) <= _MAX_STEPS else (low, middle - 1)
    return low


def degree(pattern: str) -> float:
    """The number of repetitions that can share a text: n characters take n ** degree steps; or `math.inf`.

    The pattern is valid in Python, and matches the whole line. The estimate may be too high.
    """
    tree = parser.parse(pattern)
    walk = _Walk(_rest(tree, tree.state.flags))
    walk.sequence(tree, {}, tree.state.flags)
    return max(walk.worst, 1.0)


class _Walk:
    """Passes over a pattern from left to right."""

    def __init__(self, rest: Any = None) -> None:
        self.worst = 0.0
        self._rest = rest
        self._loops = 0

    def sequence(self, nodes: _Nodes, before: _Open, flags: int) -> _Open:
        for kind, value in nodes:
            before = self._node(kind, value, before, flags)
        return before

    def _node(self, kind: Any, value: Any, before: _Open, flags: int) -> _Open:
        if kind in _CHARACTERS:
            return _across(before, _characters([(kind, value)], flags))
        if kind is op.SUBPATTERN:
            _, added, removed, inner = value
            return self.sequence(inner, before, (flags | added) & ~removed)
        if kind is op.BRANCH:
            return self._branch(value[1], before, flags)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, inner = value
            return self._repeat(least, most, inner, before, flags)
        if kind in (op.ASSERT, op.ASSERT_NOT):
            self._apart(value[1], before, flags)
            return before
        if kind is op.ATOMIC_GROUP:
            self._apart(value, before, flags)
            return _across(before, _characters(value, flags)) if _width(value) else before
        if kind is op.POSSESSIVE_REPEAT:
            least, most, inner = value
            self._apart(inner, before, flags)
            characters = _characters(inner, flags)
            if most > _MANY:  # Each way to reach this place tries it again.
                self._note(before, characters)
            return _across(before, characters) if least and _width(inner) else before
        if kind is op.GROUPREF:
            self._note(before, _ALL)
        return before  # A position, a reference, or something that Java does not have.

    def _branch(self, choices: Sequence[Any], before: _Open, flags: int) -> _Open:
        after: _Open = {}
        for choice in choices:
            after = _either(after, self.sequence(choice, before, flags))
        if self._loops:
            firsts, seen = [_first(choice, flags) for choice in choices], 0
            for first in firsts:
                if first & seen or not first:  # Two branches fit: a choice in each iteration.
                    return _either(
                        after, self._varied(before, _characters([(op.BRANCH, (0, choices))], flags))
                    )
                seen |= first
        return after

    def _repeat(self, least: int, most: int, inner: Any, before: _Open, flags: int) -> _Open:
        if inner is self._rest:
            return before
        varies = most - least > _MANY or (self._loops > 0 and most > least)
        characters = _characters(inner, flags)
        if not varies and most <= _MANY:
            for _ in range(min(least, 2)):
                before = self.sequence(inner, before, flags)
            return before if least == most else _either(before, self.sequence(inner, before, flags))
        if len(inner) == 1 and inner[0][0] in _CHARACTERS:
            if varies:
                return self._varied(_across(before, characters) if least else before, characters)
            return _across(before, characters)
        after = self._around(inner, before, flags)
        if varies:
            masks = {mask for mask, _ in after}
            through = {each: count for each, count in before.items() if each[0] in masks}
            after = _either(after, self._varied(through, characters))
        return after if least and _width(inner) else _either(before, after)

    def _around(self, inner: Any, before: _Open, flags: int) -> _Open:
        """Walk a loop until another iteration changes nothing. If every iteration does, it is exponential."""
        self._loops += 1
        after = self.sequence(inner, before, flags)
        for _ in range(2 * len(after) + 4):
            again = _either(after, self.sequence(inner, after, flags))
            if again == after:
                break
            after = again
        else:
            self.worst = math.inf
        self._loops -= 1
        return after

    def _varied(self, before: _Open, characters: _Chars) -> _Open:
        """The open repetitions after one of these characters."""
        return _either(before, {(characters, 0): self._note(before, characters)})

    def _note(self, before: _Open, characters: _Chars) -> float:
        sharing = (
            count
            for (mask, needed), count in before.items()
            if mask & characters and not needed & ~characters
        )
        shared = 1 + max(sharing, default=0.0)
        self.worst = max(self.worst, shared)
        return shared

    def _apart(self, inner: Any, before: _Open, flags: int) -> None:
        """Count a part that is matched once for each way to reach this place, and not again."""
        walk = _Walk()
        walk.sequence(inner, {}, flags)
        self.worst = max(self.worst, walk.worst + max(before.values(), default=0.0))


def _rest(nodes: Any, flags: int) -> Any:
    """The repeated part of the last node, if that takes any rest of a line: nothing before it is retried."""
    if not len(nodes):
        return None
    kind, value = nodes[-1]
    if kind is op.SUBPATTERN:
        return _rest(value[3], (flags | value[1]) & ~value[2])
    takes_any = kind in (op.MAX_REPEAT, op.MIN_REPEAT) and value[:2] == (0, op.MAXREPEAT)
    return value[2] if takes_any and _characters(value[2], flags) == _ALL else None


def _either(one: _Open, other: _Open) -> _Open:
    found = {each: max(one.get(each, 0.0), other.get(each, 0.0)) for each in (*one, *other)}
    if len(found) <= _MAX_OPEN:
        return found
    simple: _Open = {}
    for (mask, _), count in found.items():
        simple[mask, 0] = max(simple.get((mask, 0), 0.0), count)
    return simple


def _across(before: _Open, characters: _Chars) -> _Open:
    """The repetitions that can take one of these characters: others end before it."""
    after: _Open = {}
    for (mask, needed), count in before.items():
        if taken := mask & characters:
            key = (mask, needed | taken if taken.bit_count() == 1 else needed)
            after[key] = max(after.get(key, 0.0), count)
    return after


# --- characters

_CHARACTERS: Final = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def _of(characters: Iterable[int]) -> _Chars:
    return sum(1 << each for each in {min(each, _OTHERS) for each in characters})


_BREAKS: Final = _of(b"\n\r\x85")
_DIGITS: Final = _of(b"0123456789")
_SPACES: Final = _of(b" \t\n\r\x0b\x0c")
_WORD: Final = _of(code for code in range(128) if chr(code).isalnum() or chr(code) == "_")
#: As in Java, whose classes are those of ASCII.
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: _DIGITS,
    op.CATEGORY_NOT_DIGIT: _ALL & ~_DIGITS,
    op.CATEGORY_SPACE: _SPACES,
    op.CATEGORY_NOT_SPACE: _ALL & ~_SPACES,
    op.CATEGORY_WORD: _WORD,
    op.CATEGORY_NOT_WORD: _ALL & ~_WORD,
}


def _characters(nodes: _Nodes, flags: int) -> _Chars:
    """All characters in a part of a pattern."""
    found = 0
    for kind, value in nodes:
        if kind is op.LITERAL:
            found |= _cased(_of([value]), flags)
        elif kind is op.NOT_LITERAL:
            found |= _ALL & ~(_of([value]) & ~(1 << _OTHERS))
        elif kind is op.ANY:
            found |= _ALL if flags & re.DOTALL else _ALL & ~_BREAKS
        elif kind is op.IN:
            found |= _class(value, flags)
        elif kind is op.SUBPATTERN:
            found |= _characters(value[3], (flags | value[1]) & ~value[2])
        elif kind is op.BRANCH:
            for choice in value[1]:
                found |= _characters(choice, flags)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            found |= _characters(value[2], flags)
        elif kind is op.ATOMIC_GROUP:
            found |= _characters(value, flags)
        elif kind not in (op.AT, op.ASSERT, op.ASSERT_NOT):
            found = _ALL
    return found


def _class(items: _Nodes, flags: int) -> _Chars:
    found, negated = 0, False
    for kind, value in items:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            found |= _of([value])
        elif kind is op.RANGE:
            low, high = value
            found |= _of([*range(low, min(high, _OTHERS) + 1), high])
        else:
            found |= _CATEGORIES.get(value, _ALL)
    if negated:  # Some others are left whichever are excluded.
        return _ALL & ~(_cased(found, flags) & ~(1 << _OTHERS))
    return _cased(found, flags)


def _cased(characters: _Chars, flags: int) -> _Chars:
    if not flags & re.IGNORECASE:
        return characters
    letters = [code for code in range(_OTHERS) if characters >> code & 1]
    cases = (
        ord(case) for code in letters for case in (chr(code).lower(), chr(code).upper()) if len(case) == 1
    )
    return characters | _of(cases)


def _first(nodes: _Nodes, flags: int) -> _Chars:
    """The characters that a part can begin with; 0 if it can be empty."""
    found = 0
    for kind, value in nodes:
        if kind in _CHARACTERS:
            return found | _characters([(kind, value)], flags)
        if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
            continue
        if kind is op.SUBPATTERN and _width(value[3]):
            return found | _first(value[3], (flags | value[1]) & ~value[2])
        found |= _characters([(kind, value)], flags)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT) and not (
            value[0] and _width(value[2])
        ):
            continue
        if kind is op.BRANCH and not all(map(_width, value[1])):
            continue
        return found
    return 0


def _width(nodes: Any) -> int:
    """The least number of characters."""
    return int(nodes.getwidth()[0])
