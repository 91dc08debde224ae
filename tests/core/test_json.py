"""JSON from outside: the value, or an error about this one document."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark import RemoteProtocolError
from jetspark.core.json import decode_json
from tests.support.cases import for_each

BAD = {
    "nothing": b"",
    "not JSON": b"what?",
    "not UTF-8": b'{"a":"\xff"}',
    "not UTF-8 in a key": b'{"\xff":1}',
    "not closed": b'{"a":1',
    "two documents": b"{}{}",
    "a list": b"[]",
    "a number": b"1",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "a number out of range": b'{"a":1e999}',
    "thousands of digits": b'{"a":' + b"9" * 5000 + b"}",
    "a lone surrogate": b'{"a":"\\ud800"}',
    "a lone surrogate in bytes": b'{"a":"\xed\xa0\x80"}',
    "nested lists": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


@for_each("data", BAD.values(), ids=BAD.keys())
def test_everything_else_is_a_protocol_error_that_shows_the_beginning(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^not a JSON object: b") as raised:
        decode_json(data, dict[str, Any], "a JSON object")
    assert len(str(raised.value)) < 600


def test_the_value_has_the_expected_type() -> None:
    assert decode_json(b'{"a":[1,2.5,"x",null]}', dict[str, Any], "a JSON object") == {
        "a": [1, 2.5, "x", None]
    }
    assert decode_json(b'{"a":[1]}', dict[str, list[int]], "lists of numbers") == {"a": [1]}
    with pytest.raises(RemoteProtocolError, match=r"not lists of numbers: .*Expected `int`"):
        decode_json(b'{"a":["1"]}', dict[str, list[int]], "lists of numbers")
