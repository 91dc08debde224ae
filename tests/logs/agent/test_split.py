"""Bytes into lines: the same lines at the same offsets, however the bytes come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line

text = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\xff\x00", b"x" * 7])).map(b"".join)


def read_in_chunks(data: bytes, limit: int, sizes: list[int]) -> list[Line]:
    """The lines of a file that is read piece by piece, each time from where the last line ended."""
    lines: list[Line] = []
    offset = available = 0
    for size in [*sizes, len(data)]:
        available = min(available + size, len(data))
        found, used = split_lines(data[offset:available], offset, limit, final=False)
        lines += found
        offset += used
    found, used = split_lines(data[offset:], offset, limit, final=True)
    assert offset + used == len(data)
    return lines + found


@given(text, st.integers(1, 9), st.lists(st.integers(0, 12)))
def test_lines_do_not_depend_on_how_the_bytes_are_read(data: bytes, limit: int, sizes: list[int]) -> None:
    assert read_in_chunks(data, limit, sizes) == read_in_chunks(data, limit, [])


@given(text, st.integers(1, 9))
def test_nothing_is_lost_and_nothing_is_added(data: bytes, limit: int) -> None:
    lines, used = split_lines(data, 100, limit, final=True)
    assert used == len(data)
    rebuilt = b"".join(line.data if line.cut else line.data + b"\n" for line in lines)
    assert rebuilt == (data if data.endswith(b"\n") or not data else data + b"\n")
    assert all(len(line.data) <= limit and b"\n" not in line.data for line in lines)
    assert sum(line.size for line in lines) == len(data)
    for line in lines:
        assert data[line.offset - 100 :].startswith(line.data)


@given(text, st.integers(1, 9))
def test_reading_again_from_any_piece_finds_the_same_pieces(data: bytes, limit: int) -> None:
    lines, _ = split_lines(data, 0, limit, final=True)
    for number, line in enumerate(lines):
        assert split_lines(data[line.offset :], line.offset, limit, final=True)[0] == lines[number:]


def test_a_line_of_exactly_the_limit_is_not_cut() -> None:
    assert split_lines(b"abcd\n", 0, 4) == ([Line(0, b"abcd")], 5)
    assert split_lines(b"abcd", 0, 4) == ([], 0)
    assert split_lines(b"abcde", 0, 4) == ([Line(0, b"abcd", cut=True)], 4)


def test_a_line_without_its_end_waits() -> None:
    assert split_lines(b"one\ntw", 0, 100) == ([Line(0, b"one")], 4)
    assert split_lines(b"one\ntw", 0, 100, final=True) == ([Line(0, b"one"), Line(4, b"tw", ended=False)], 6)
