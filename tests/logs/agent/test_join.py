"""Lines into events: the same events at the same offsets, however the bytes come and wherever a crash was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import UsageError
from jetspark.logs.agent.containers import CONTAINERS
from jetspark.logs.agent.join import join_events
from jetspark.logs.agent.multiline import PRESETS, Multiline
from jetspark.logs.format.line import Line
from tests.support.cases import for_each

texts = st.lists(
    st.sampled_from(
        [
            b"INFO one\n",
            b"  more\n",
            b"\n",
            b"\r\n",
            b"java.lang.IllegalStateException: x\n",
            b"\tat a.B.c(B.java:1)\n",
            b"Caused by: java.io.IOException\n",
            b"Traceback (most recent call last):\n",
            b"ValueError: x\n",
            b"During handling of the above exception, another exception occurred:\n",
            b"panic: x\n",
            b"goroutine 1 [running]:\n",
            b"main.main()\n",
            b"{\n",
            b"}\n",
            b"T stdout P part\n",
            b"T stdout F  rest\n",
            b"T stderr P part\n",
            b"T stderr F INFO rest\n",
            b'{"log":"part","stream":"stdout"}\n',
            b'{"log":"rest\\n","stream":"stdout"}\n',
            b'{"log":" other\\n","stream":"stderr"}\n',
            b"no end",
            b"x" * 50,
            b"\xff\x00",
        ]
    ),
    max_size=20,
).map(b"".join)
rules = st.one_of(
    st.builds(Multiline, st.sampled_from(sorted(PRESETS)), max_lines=st.integers(1, 5)),
    st.builds(lambda lines: Multiline(start="INFO|panic", max_lines=lines), st.integers(1, 5)),
    st.builds(lambda lines: Multiline(continuation=r"\s", max_lines=lines), st.integers(1, 5)),
    st.builds(
        lambda container, rule, lines: Multiline(container=container, max_lines=lines, **rule),
        st.sampled_from(sorted(CONTAINERS)),
        st.sampled_from([{}, {"start": "INFO"}, {"continuation": r"\s"}, {"preset": "java"}]),
        st.integers(1, 8),
    ),
)


def read_in_chunks(data: bytes, limit: int, rule: Multiline, sizes: list[int]) -> list[Line]:
    """The events of a file that grows, read each time from where the last event ended."""
    events: list[Line] = []
    offset = available = 0
    for size in sizes:
        available = min(available + size, len(data))
        found, used = join_events(data[offset:available], offset, limit, rule)
        events += found
        offset += used
    found, used = join_events(data[offset:], offset, limit, rule, final=True)
    assert offset + used == len(data)
    return events + found


@given(texts, st.integers(20, 90), rules, st.lists(st.integers(0, 60), max_size=15))
def test_events_do_not_depend_on_how_the_bytes_are_read(
    data: bytes, limit: int, rule: Multiline, sizes: list[int]
) -> None:
    assert read_in_chunks(data, limit, rule, sizes) == join_events(data, 0, limit, rule, final=True)[0]


@given(texts, st.integers(20, 90), rules)
def test_reading_again_from_any_position_finds_the_same_events(
    data: bytes, limit: int, rule: Multiline
) -> None:
    events, _ = join_events(data, 0, limit, rule, final=True)
    position = 0  # As the send queue moves it.
    for number, event in enumerate(events):
        if number == 0 or events[number - 1].size:
            assert event.offset == position
            again, _ = join_events(data[position:], position, limit, rule, final=True)
            assert again == events[number:]
        position += event.size


@given(texts, st.integers(20, 90), rules)
def test_nothing_is_lost_or_added_and_no_event_is_too_large(data: bytes, limit: int, rule: Multiline) -> None:
    events, used = join_events(data, 100, limit, rule, final=True)
    assert used == len(data) == sum(event.size for event in events)
    assert len({event.offset for event in events}) == len(events)
    rebuilt = b"".join(event.data if event.cut else event.data + b"\n" for event in events)
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    if all(event.taken is None for event in events):
        assert rebuilt == whole
    assert sorted(rebuilt.splitlines(keepends=True)) == sorted(whole.splitlines(keepends=True))
    offset = 100
    for event in events:
        assert event.offset == offset or event.taken is not None
        assert len(event.data) <= limit + event.cut
        assert event.data.removesuffix(b"\n").count(b"\n") <= rule.max_lines
        offset += event.size


@given(texts, st.integers(20, 90), rules, st.data())
def test_an_end_that_was_recorded_is_an_end_after_any_crash(
    data: bytes, limit: int, rule: Multiline, draw: st.DataObject
) -> None:
    """The file had `ends` when they were recorded. The agent dies anywhere; meanwhile the file has grown."""
    ends = sorted(draw.draw(st.sets(st.integers(1, len(data)), max_size=3))) if data else []
    before: list[Line] = []
    offset = 0
    for end in ends:
        found, used = join_events(data[offset:end], offset, limit, rule, final=True)
        assert offset + used == end
        before += found
        offset = end
    position = 0
    for number, event in enumerate(before):
        if number == 0 or before[number - 1].size:
            again, _ = join_events(data[position:], position, limit, rule, ends=ends)
            assert again[: len(before) - number] == before[number:]
        position += event.size


def joined(text: str, rule: Multiline) -> list[str]:
    return [event.data.decode() for event in join_events(text.encode(), 0, 4096, rule, final=True)[0]]


JAVA = [
    "12:00 INFO started",
    "12:01 ERROR failed\n"
    "java.lang.IllegalStateException: no\n"
    "\tat com.example.A.b(A.java:1)\n"
    "\tSuppressed: java.io.IOException: x\n"
    "\t\tat com.example.C.d(C.java:2)\n"
    "Caused by: java.util.NoSuchElementException\n"
    "\t... 12 more",
    "12:02 INFO going on",
    'Exception in thread "main" java.lang.OutOfMemoryError: heap\n\tat A.main(A.java:1)',
    "java.lang.RuntimeException: printed\n\tat A.b(A.java:2)",
    "java.lang.RuntimeException: printed again\n\tat A.b(A.java:2)",
]
PYTHON = [
    'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\nKeyboardInterrupt',
    "INFO:root:started",
    "ERROR:root:failed\n"
    "Traceback (most recent call last):\n"
    '  File "a.py", line 1, in <module>\n'
    "    1 / 0\n"
    "    ~~^~~\n"
    "ZeroDivisionError: division by zero\n"
    "\n"
    "During handling of the above exception, another exception occurred:\n"
    "\n"
    "Traceback (most recent call last):\n"
    '  File "a.py", line 3, in <module>\n'
    "example.Failure",
    "INFO:root:going on",
]
GO = [
    "2026/11/16 12:00:00 started",
    "panic: runtime error: index out of range [5] with length 3\n"
    "\n"
    "goroutine 1 [running]:\n"
    "main.main()\n"
    "\t/tmp/a.go:5 +0x1d\n"
    "\n"
    "goroutine 7 [chan receive, 2 minutes]:\n"
    "main.(*T).work(0xc0000140a0, {0x1, 0x2})\n"
    "\t/tmp/a.go:9 +0x35\n"
    "created by main.main in goroutine 1\n"
    "\t/tmp/a.go:4 +0x1d\n"
    "exit status 2",
    "2026/11/16 12:00:01 started again",
]
JSON = [
    '{\n  "a": [\n    1\n  ],\n  "b": {}\n}',
    '{"a": 1}',
    '{"a": 2}',
    "[\n  1,\n  2\n]",
    "not JSON",
    "{\n}",
]


@for_each(("preset", "events"), [("java", JAVA), ("python", PYTHON), ("go", GO), ("json", JSON)])
def test_a_preset_knows_its_language(preset: str, events: list[str]) -> None:
    assert joined("\n".join(events) + "\n", Multiline(preset)) == events
    assert joined("\r\n".join(each.replace("\n", "\r\n") for each in events), Multiline(preset)) == [
        each.replace("\n", "\r\n") + "\r" * (number < len(events) - 1) for number, each in enumerate(events)
    ]


def test_a_pattern_is_the_start_or_the_continuation_of_an_event() -> None:
    text = "lost\n  one\n2026 a\nb\nc\n2026 d\n"
    assert joined(text, Multiline(start=r"\d{4} |x")) == ["lost\n  one", "2026 a\nb\nc", "2026 d"]
    assert joined(text, Multiline(continuation=r"\s+\w")) == ["lost\n  one", "2026 a", "b", "c", "2026 d"]


def test_a_last_event_waits_unless_it_is_complete() -> None:
    assert join_events(b"a\n b\n", 0, 99, Multiline("java")) == ([], 0)
    assert join_events(b"a\n b\nc\n d", 0, 99, Multiline("java")) == ([Line(0, b"a\n b")], 5)
    assert join_events(b"{\n}\n{\n", 0, 99, Multiline("json")) == ([Line(0, b"{\n}")], 4)


def test_a_large_event_is_cut_between_lines_and_a_long_line_anywhere() -> None:
    rule = Multiline(continuation=" ", max_lines=2)
    assert join_events(b"a\n b\n c\nd\n", 0, 99, rule)[0] == [Line(0, b"a\n b\n", cut=True), Line(5, b" c")]
    assert join_events(b"a\n bcdefgh\n i\n", 0, 4, rule, final=True)[0] == [
        Line(0, b"a\n", cut=True),
        Line(2, b" bcd", cut=True),
        Line(6, b"efgh\n", cut=True),
        Line(11, b" i"),
    ]


CRI = [
    "T stdout F one",
    "T stdout P two \nT stdout P goes \nT stdout F on",
    "T stderr F three",
    "T stdout F",
    "not of a runtime",
    "T stdout F:x four",
]


def docker(text: str, output: str = "stdout") -> str:
    return json.dumps({"log": text, "stream": output, "time": "T"}, separators=(",", ":"))


DOCKER = [
    docker("one\n"),
    docker("two ") + "\n" + docker('"\\n') + "\n" + docker("\n"),
    docker("three\n", "stderr"),
    docker("four\\\n"),
    '{"log":',
    docker("\n"),
]


@pytest.mark.parametrize(("container", "events"), [("cri", CRI), ("docker", DOCKER)])
def test_the_parts_of_a_line_of_a_container_are_joined(container: str, events: list[str]) -> None:
    rule = Multiline(container=container)
    assert joined("\n".join(events) + "\n", rule) == events
    # None of them waits for what follows.
    assert len(join_events("\n".join(events).encode() + b"\n", 0, 4096, rule)[0]) == len(events)


def test_parts_that_alternate_with_lines_of_the_other_output_are_joined() -> None:
    data = b"a stdout P b\nc stderr F d\ne stderr P f\ng stdout F h\ni stderr F j\nk stdout F l\n"
    rule = Multiline(container="cri")
    assert join_events(data, 0, 4096, rule) == (
        [
            Line(0, b"a stdout P b\ng stdout F h", taken=0),
            Line(13, b"c stderr F d", taken=0),
            Line(26, b"e stderr P f\ni stderr F j", taken=65),
            Line(65, b"k stdout F l"),
        ],
        len(data),
    )
    assert join_events(data[:-26], 0, 4096, rule) == ([], 0)  # Reading goes on before all of them.


def test_a_rule_is_about_the_text_of_a_container() -> None:
    events = [
        "T stdout F INFO one",
        "T stderr F java.io.IOException: x\nT stderr P \tat \nT stderr F a.B\nT stderr F \tat c.D",
        "T stdout F \tindented, of the other output",
        "T stdout F INFO two",
    ]
    assert joined("\n".join(events), Multiline("java", container="cri")) == events
    events = [docker("one\n") + "\n" + docker("\tat a\n"), docker("two\n")]
    assert joined("\n".join(events), Multiline("java", container="docker")) == events


def test_a_part_without_its_end_does_not_hold_the_other_output_for_ever() -> None:
    data = b"T stdout P a\n" + b"T stderr F b\n" * 3
    assert join_events(data, 0, 4096, Multiline(container="cri", max_lines=3))[0] == [
        Line(0, b"T stdout P a\n", cut=True, taken=0),
        Line(13, b"T stderr F b", taken=0),
        Line(26, b"T stderr F b", taken=39),
        Line(39, b"T stderr F b"),
    ]


@for_each(
    "options",
    [
        {},
        {"container": "lxc"},
        {"container": "cri", "preset": "java", "start": "x"},
        {"preset": "cobol"},
        {"preset": "java", "start": "x"},
        {"start": "x", "continuation": "y"},
        {"start": "("},
        {"continuation": "\udc80"},
        {"start": "x", "timeout": 0.0},
        {"start": "x", "max_lines": 0},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Multiline(**options)
