"""How long patterns can take: those that are safe, and those that are not. Without Spark."""

from __future__ import annotations

import contextlib
import math
import re

from hypothesis import example, given
from hypothesis import strategies as st

from jetspark.logs.job.backtracking import degree, longest
from jetspark.logs.job.grok import LIBRARY, expand
from jetspark.logs.job.patterns import in_python
from tests.support.cases import for_each


@for_each(
    "pattern",
    [
        r"(\S+) (\S+) \[([^\]]+)\] \"([^\"]*)\" (\d+) (.*)",
        r"(?P<at>\S+) \[(?P<level>[A-Z]+)\](?: (?P<code>\w+))?(?: (?P=code)!)?",
        r"(?:\.[a-z]+)*,(?:foo|bar)+",
        r"\"(?:\\.|[^\"\\])*\" \d{1,3}(?:,\d{3})*",
        r"[a-z]*+.*",
        r"(?:\w++ ?)+",
        "",
    ],
)
def test_repetitions_that_share_no_text_are_safe_on_long_lines(pattern: str) -> None:
    assert degree(pattern) == 1
    assert longest(pattern) > 1 << 20


@for_each(
    ("pattern", "power"),
    [
        (".*x.*", 2),
        ("(.*?) (.*?) (.*)", 3),
        # Nothing after the last one can fail.
        ("(?s)(.*?) (.*?) (.*)", 2),
        ("(.*?) (.*?) ([0-9]+)", 2),
        ("(?i:a+A+)b", 2),
        ("(?=.*a.*b).*", 2),
        (".*(?=.*a.*b)", 3),
        ("(?>.*) .* .*", 2),
        (r".* [^ ]*+x", 1),
        (r".* \S*+ x", 1),
        (".*.*+x", 2),
        ("(?:ab)*(?:ab)*c", 2),
        (".*" + "(?:ab|cd)" * 30 + ".*", 2),
    ],
)
def test_the_repetitions_are_counted_that_can_share_a_text(pattern: str, power: int) -> None:
    assert degree(pattern) == power


@for_each(
    "pattern",
    [
        *("(a+)+", "(a|aa)+", "(.*)*x", r"([a-z]+)*[0-9]", "((a+)+)(\\2)?b", "(x+x+)+y", "(?:[a-z]+-?)+"),
        *(r"(\w+\s?)*", "(?:a*b*)*", "(?:a?){30}a{30}", "(?:(?:ab)*)*", r"(?:\d+|[0-9a-f]+)*"),
    ],
)
def test_loops_around_a_choice_are_exponential(pattern: str) -> None:
    assert (degree(pattern), longest(pattern)) == (math.inf, 0)


def test_the_longest_line_takes_a_bounded_number_of_steps() -> None:
    assert longest(".*x.*") == 1 << 16
    assert 1 << 11 < longest("(.*?) (.*?) (.*)") < 1 << 12


def test_every_pattern_of_the_grok_library_is_safe() -> None:
    degrees = {name: degree(in_python(expand(f"%{{{name}:a}}", {}).text)) for name in LIBRARY}
    assert {name: power for name, power in degrees.items() if power > 2} == {}


@given(st.text(alphabet=r"ab.*+?()|[]{}1,\s^$:=!<>iP-", max_size=25))
@example("[[]")
def test_every_pattern_has_a_degree(text: str) -> None:
    # Python warns of sets such as `[[`, which it may read differently one day.
    with contextlib.suppress(re.error, OverflowError, FutureWarning):
        re.compile(text)
        assert degree(text) >= 1
