"""The header blocks of published messages are built in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

import jetspark
from jetspark.core.headers import add_lines, block_pieces, extend_block, header_block, header_lines
from jetspark.errors import UsageError
from jetspark.wire.headers import Headers

NAMES = {"A": "1", "Nats-Msg-Id": "id-", "B": "2", "Offset": ""}


def test_a_message_without_headers_has_no_block() -> None:
    assert header_block(None) == header_block({}) == b""


def test_a_block_holds_the_headers() -> None:
    assert header_block({"A": ["1", "2"]}) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"


def test_the_pieces_of_a_block_make_the_block_with_longer_values() -> None:
    start, between, end = block_pieces(NAMES, "Nats-Msg-Id", "Offset")
    assert start + between + end == header_block(NAMES)
    longer = start + b"7" + between + b"42" + end
    assert Headers.parse(longer) == {"A": "1", "Nats-Msg-Id": "id-7", "B": "2", "Offset": "42"}


def test_a_block_without_open_values_is_one_piece() -> None:
    assert block_pieces(NAMES) == (header_block(NAMES),)


def test_a_block_is_extended_with_further_headers() -> None:
    assert extend_block(header_block({"A": "1"}), {"B": ["2", "3"]}) == header_block(
        {"A": "1", "B": ["2", "3"]}
    )
    assert extend_block(header_block({"A": "1"}), {}) == header_block({"A": "1"})


@pytest.mark.parametrize("headers", [{}, {"A": "1"}, {"A": ["1", "2"], "B": "3"}])
def test_lines_are_added_to_any_block(headers: dict[str, str | list[str]]) -> None:
    lines = header_lines({"C": "4", "D": ""})
    assert add_lines(header_block(headers), lines) == header_block({**headers, "C": "4", "D": ""})


def test_a_value_that_breaks_its_line_is_refused() -> None:
    with pytest.raises(UsageError, match="line break"):
        block_pieces({"A": "1\r\nB: 2"}, "A")
    with pytest.raises(UsageError, match="line break"):
        extend_block(header_block({"A": "1"}), {"B": "2\n"})


def test_no_other_module_builds_blocks() -> None:
    source = Path(jetspark.__file__).parent
    builders = {
        str(path.relative_to(source)) for path in source.rglob("*.py") if "encode_headers" in path.read_text()
    }
    assert builders == {"core/headers.py", "wire/headers.py"}
