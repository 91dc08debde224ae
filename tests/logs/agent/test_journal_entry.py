"""The export format of the journal: the same entries however the bytes come, and a bound for each."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import RemoteProtocolError
from jetspark.logs.agent.journal_entry import EntryParser, JournalEntry, place_of

CURSOR = "s=0123456789abcdef0123456789abcdef;i=%x;b=0;m=0;t=0;x=0"


def exported(number: int, *fields: tuple[str, bytes]) -> bytes:
    """An entry as journalctl writes it."""
    lines = [b"__CURSOR=%b\n__REALTIME_TIMESTAMP=1793000001000001\n" % (CURSOR % number).encode()]
    for name, value in fields:
        if value.isascii() and value.decode().isprintable():
            lines.append(b"%b=%b\n" % (name.encode(), value))
        else:
            lines.append(b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(value)), value))
    return b"".join(lines) + b"\n"


def fields_of(entry: JournalEntry) -> dict[str, object]:
    found = json.loads(entry.data)
    assert (found.pop("__CURSOR"), found.pop("__REALTIME_TIMESTAMP")) == (entry.cursor, "1793000001000001")
    assert found.pop("time") == "2026-10-26T07:33:21.000001+00:00"
    return dict(found)


def test_an_entry_is_an_object_with_its_fields() -> None:
    data = exported(
        10, ("MESSAGE", b"a=b\n c"), ("TAG", b"1"), ("TAG", b"2"), ("BAD", b"caf\xe9"), ("NO", b"")
    )
    (entry,) = EntryParser(4096).feed(data)
    assert place_of(entry.cursor) == ("0123456789abcdef0123456789abcdef", 10)
    assert fields_of(entry) == {"MESSAGE": "a=b\n c", "TAG": ["1", "2"], "BAD": "caf\ufffd", "NO": ""}


values = st.one_of(st.binary(max_size=300), st.sampled_from([b"x" * 700, b"\n" * 900, b"a\nb\n\n"]))


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["A", "B", "MESSAGE"]), values), max_size=4), max_size=4),
    st.lists(st.integers(1, 200), max_size=30),
    st.sampled_from([512, 4096]),
)
def test_entries_do_not_depend_on_how_the_bytes_come(
    entries: list[list[tuple[str, bytes]]], sizes: list[int], limit: int
) -> None:
    data = b"".join(exported(number, *fields) for number, fields in enumerate(entries))
    whole = EntryParser(limit).feed(data)
    assert [place_of(entry.cursor)[1] for entry in whole] == list(range(len(entries)))
    assert all(len(entry.data) <= limit for entry in whole)
    parser, found, at = EntryParser(limit), [], 0
    for size in [*sizes, len(data)]:
        found += parser.feed(data[at : at + size])
        at += size
    assert found == whole


@pytest.mark.parametrize("value", [b"x" * 100_000, b"\0" * 100_000], ids=["text", "binary"])
def test_a_large_value_is_cut_and_never_held(value: bytes) -> None:
    data = exported(1, ("MESSAGE", b"short"), ("BIG", value)) + exported(2, ("MESSAGE", b"next"))
    parser, found = EntryParser(1000), []
    for at in range(0, len(data), 100):
        found += parser.feed(data[at : at + 100])
        assert len(parser._rest) < 2000
    first, second = found
    assert len(first.data) <= 1000
    assert json.loads(first.data)["MESSAGE"] == "short"
    assert fields_of(second) == {"MESSAGE": "next"}


@pytest.mark.parametrize("data", [b"MESSAGE=a\n\n", b"__CURSOR=x\n\n", b"__CURSOR=s=1;i=2;\n\n"])
def test_an_entry_without_a_cursor_is_an_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="is not a cursor of the journal"):
        EntryParser(4096).feed(data)
