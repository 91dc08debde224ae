"""Payloads of several gzip members or zstd frames, and damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.logs.compression import ENCODINGS, compressor, decompress


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(parts=st.lists(st.binary(max_size=600), min_size=1, max_size=5))
def test_every_member_is_decompressed(encoding: str, parts: list[bytes]) -> None:
    packed = b"".join(map(compressor(encoding), parts))
    plain = b"".join(parts)
    assert decompress(encoding, packed, len(plain)) == plain


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_limit_is_for_all_members_together(encoding: str) -> None:
    packed = compressor(encoding)(bytes(60)) * 2
    assert decompress(encoding, packed, 120) == bytes(120)
    with pytest.raises(ValueError, match="more than 119 bytes"):
        decompress(encoding, packed, 119)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bytes_after_a_member_that_are_not_a_member_are_an_error(encoding: str) -> None:
    packed = compressor(encoding)(b"one")
    for rest in (b"garbage", b"g", bytes(20), packed[:-1], packed[:2], packed + b"garbage"):
        with pytest.raises(ValueError, match=r"damaged|cut short"):
            decompress(encoding, packed + rest, 1000)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_small_payload_of_much_data_is_refused(encoding: str) -> None:
    packed = compressor(encoding)(bytes(50_000_000))
    for payload in (packed, packed[:-4]):
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            decompress(encoding, payload, 1000)
