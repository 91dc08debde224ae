"""Patterns by name: what they match, and which are refused. Without Spark."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.logs.job.grok import LIBRARY, expand
from jetspark.logs.job.patterns import read_pattern
from tests.support.cases import for_each

#: By name: texts that match as a whole, and texts that do not.
MATCHES = {
    "WORD": (["abc_1"], ["a b", ""]),
    "INT": (["7", "-7", "+12"], ["1.5", "x"]),
    "NUMBER": (["7", "-1.5", ".5", "1e9"], ["1.5.2", "e9"]),
    "BASE16NUM": (["0xfF", "12"], ["0xg"]),
    "UUID": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-42661417400"]),
    "QUOTEDSTRING": (['"a \\" b"', "'x'"], ['"a" b"', '"a']),
    "LOGLEVEL": (["WARN", "warning", "Error"], ["loud"]),
    "IPV4": (["192.0.2.7", "255.255.255.255"], ["256.0.0.1", "1.2.3"]),
    "IPV6": (["::1", "2001:db8::7", "fe80::1%eth0", "::", "1:2:3:4:5:6:7:8"], ["192.0.2.7", "abcd", "12"]),
    "IPORHOST": (["192.0.2.7", "::1", "web1.example.com", "web-1"], ["a b", "a/b"]),
    "HOSTPORT": (["web1:80"], ["web1", "web1:0"]),
    "MAC": (["00:1A:2b:3c:4d:5e"], ["00:1A:2b"]),
    "EMAILADDRESS": (["a.b+c@example.com"], ["@example.com"]),
    "PATH": (["/var/log/x", "C:\\logs\\x"], ["var"]),
    "URI": (["https://me@example.com:8080/a?b=c", "http://[x]".replace("[x]", "::1")], ["example.com"]),
    "URIPATHPARAM": (["/a/b?c=d", "/"], ["a"]),
    "TIMESTAMP_ISO8601": (
        ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00,123", "2026-01-31T12:00+01:00"],
        ["2026-1-31T12:00:00Z", "12:00:00"],
    ),
    "HTTPDATE": (["31/Jan/2026:12:00:00 +0000"], ["31/Foo/2026:12:00:00 +0000"]),
    "SYSLOGTIMESTAMP": (["Jan 31 12:00:00", "Feb  5 01:02:03"], ["31 Jan 12:00:00"]),
    "JAVACLASS": (["com.example.Main$1"], ["com..Main"]),
}


@for_each("name", sorted(LIBRARY))
def test_every_pattern_of_the_library_compiles_and_matches_what_its_name_says(name: str) -> None:
    pattern = re.compile(read_pattern(expand(f"%{{{name}:found}}", {}).text).text.replace("\\z", "\\Z"))
    good, bad = MATCHES.get(name, ([], []))
    assert [text for text in good if pattern.match(text) is None] == []
    assert [text for text in bad if pattern.match(text) is not None] == []


def test_fields_have_types_and_the_users_patterns_replace_others() -> None:
    text, types = expand(r"%{ID:id:bigint} %{WORD:word} %{INT}", {"ID": "x%{INT}", "WORD": "[a-z]+"})
    pattern = read_pattern(text)
    assert (pattern.names, types) == (("id", "word"), {"id": "bigint"})
    found = re.fullmatch(pattern.text, "x12 abc 7")
    assert found is not None
    assert [found[number] for number in pattern.groups.values()] == ["x12", "abc"]
    assert re.fullmatch(pattern.text, "x12 ABC 7") is None


@for_each(
    ("text", "own", "told"),
    [
        ("%{NOSUCHTHING:a}", {}, "unknown name %{NOSUCHTHING}"),
        ("%{INT:a} %{INT:a}", {}, "field a is named twice"),
        ("%{INT:[http][status]}", {}, "must be letters, digits and _"),
        ("%{INT:a:int:more}", {}, "not a name: %{INT:a:int:more}"),
        ("%{INT", {}, "not a name: %{INT"),
        ("%{A:a}", {"A": "%{B}", "B": "%{A}"}, "%{A} is defined by itself"),
        ("%{N40:a}", {f"N{n}": f"%{{N{n - 1}}}" for n in range(1, 41)} | {"N0": "x"}, "more than 16 deep"),
        (
            "%{N14:a}",
            {f"N{n}": f"%{{N{n - 1}}}" * 8 for n in range(1, 15)} | {"N0": "x"},
            "expands to more than 32,768 characters",
        ),
    ],
)
def test_a_pattern_that_cannot_be_expanded_is_refused(text: str, own: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        expand(text, own)


@given(st.text(alphabet="%{}:aINT \\", max_size=30), st.dictionaries(st.sampled_from("AINT"), st.text()))
def test_any_text_expands_or_is_refused(text: str, own: dict[str, str]) -> None:
    with contextlib.suppress(ValueError):
        assert "%{" not in expand(text, own).text
