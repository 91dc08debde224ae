"""Names of hosts and files, whatever they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import UsageError
from jetspark.logs.compression import compressor, decompress
from jetspark.logs.format.line import Line
from jetspark.logs.format.message import Envelope, subject_of
from jetspark.logs.format.names import file_name, header_text, partition_of, subject_token
from jetspark.wire.headers import Headers
from jetspark.wire.subjects import check_subject
from tests.support.cases import for_each

anything = st.text(st.characters(codec=None), min_size=1)


@given(anything)
def test_any_name_is_one_safe_token(name: str) -> None:
    token = subject_token(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", token)
    check_subject(f"logs.1.{token}")


@given(anything)
def test_any_name_is_a_file_in_its_directory(name: str) -> None:
    found = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", found)
    assert not found.startswith(".")
    assert (Path("/root/of/all") / found).resolve().parent == Path("/root/of/all")


@for_each(
    "name", ["..", ".", "../../etc/passwd", "a/b", ".hidden", "a\x00b", "", "x" * 500, "a b", "*", ">", "ü"]
)
def test_hostile_names_keep_nothing_that_harms(name: str) -> None:
    for made in (subject_token(name), file_name(name)):
        assert not set(made) & set("/\\.*> \x00\r\n")


def test_different_names_stay_different() -> None:
    names = ["a.b", "a_b", "a/b", "a b", "a*b", "ab", "A.B"]
    assert len({subject_token(name) for name in names}) == len(names)
    assert subject_token("web-1") == "web-1"
    assert file_name("web1.example.com") == "web1.example.com"


@given(anything)
def test_the_true_name_in_a_header_cannot_leave_it(name: str) -> None:
    shown = header_text(name)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", shown)
    (message,) = Envelope("logs.1.h", name, name, "id").wrap([Line(7, b"x")])
    headers = Headers.parse(message.block)
    assert headers["Jetspark-Host"] == shown == headers["Jetspark-File"]
    assert headers["Nats-Msg-Id"] == message.msg_id
    assert headers["Jetspark-Offset"] == "7"


@given(anything, st.integers(1, 64))
def test_a_host_has_one_partition(name: str, partitions: int) -> None:
    assert 0 <= partition_of(name, partitions) < partitions
    assert subject_of("logs", name, partitions) == subject_of("logs", name, partitions)


def test_hosts_spread_over_the_partitions() -> None:
    assert {partition_of(f"web{number}", 8) for number in range(200)} == set(range(8))


def test_a_prefix_that_is_no_subject_is_refused() -> None:
    for prefix in ("a b", "", "a..b", "logs.>", "a\r\nPUB x"):
        with pytest.raises(UsageError):
            subject_of(prefix, "h", 4)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_what_is_compressed_comes_back(encoding: str) -> None:
    line = b"GET /index.html 200 " * 40
    envelope = Envelope("l.1.h", "h", "f", "id", encoding=encoding, compress=compressor(encoding))
    packed, short = envelope.wrap([Line(0, line), Line(900, b"x", cut=True)])
    assert Headers.parse(packed.block)["Content-Encoding"] == encoding
    assert len(packed.data) < len(line)
    assert decompress(encoding, packed.data, 10_000) == line
    assert "Content-Encoding" not in Headers.parse(short.block)
    assert (short.data, Headers.parse(short.block)["Jetspark-Cut"]) == (b"x", "true")
    for damaged in (packed.data[:-4], b"junk", b""):
        with pytest.raises(ValueError):
            decompress(encoding, damaged, 10_000)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        decompress(encoding, packed.data, 100)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_line_without_its_end_is_another_one_when_it_has_grown(encoding: str) -> None:
    compress = compressor(encoding) if encoding else None
    envelope = Envelope("l.1.h", "h", "f", "id", encoding=encoding, compress=compress)
    before, short = envelope.wrap([Line(0, b"x"), Line(2, b"abc", ended=False)])
    (longer,) = envelope.wrap([Line(2, b"abcdef")])
    assert [before.msg_id, short.msg_id, longer.msg_id] == ["h-id-0", "h-id-2+3", "h-id-2"]
    assert Headers.parse(short.block)["Nats-Msg-Id"] == "h-id-2+3"
    assert Headers.parse(short.block)["Jetspark-Offset"] == "2"


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown Content-Encoding"):
        decompress("br", b"", 10)
    with pytest.raises(UsageError):
        compressor("br")
