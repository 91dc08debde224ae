"""Changes a document: its values as JSON, its bytes, or both. A seed gives the same changes again."""

from __future__ import annotations

import json
from random import Random
from typing import Any

__all__ = ["mutate"]

#: Replaced by nested lists and objects, which `json.dumps` cannot write that deep.
_DEEP = "\x00deep"

_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        503,
        10071,
        10**18,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        10**30,
    ),
    *(0.5, -0.0, 1e300, float("nan"), float("inf")),
    *("", "x", "a b", "\r\n", "\x00", "\ud800", "\U0001f600", "é", "9" * 5000, "x" * 10_000),
    *(
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-11-15",
        "2026-13-01",
    ),
    *("wrong last sequence: " + "9" * 5000, "TkFUUw", "====", "*", ">", "a.b", ".", "io.nats.jetstream.x"),
    *([], {}, [[]], [None], [{}], [5, "x"], {"a": {}}, {"": None}, {"name": []}),
    *(_DEEP, _DEEP),
)
_BYTES = (
    *(
        b"",
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b":",
        b",",
        b"-",
        b"0",
        b"9" * 5000,
    ),
    *(
        b"null",
        b"NaN",
        b"\r\n",
        b"\r\n\r\n",
        b" ",
        b"NATS/1.0",
        b"NATS/1.0 503",
        b"Nats-Sequence: 99",
        b"\\ud800",
    ),
)


def mutate(random: Random, document: bytes) -> bytes:
    """Change a document a little, or beyond recognition."""
    kind = random.random()
    if kind < 0.65 and document.startswith(b"{"):
        document = _change_values(random, document)
    if kind > 0.55:
        for _ in range(random.choice((1, 1, 2, 8))):
            document = _change_bytes(random, document)
    return document


def _change_values(random: Random, document: bytes) -> bytes:
    value = json.loads(document)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        value = _change(random, value)
    written = json.dumps(value, ensure_ascii=random.random() < 0.8).encode("utf-8", "surrogatepass")
    return written.replace(b'"\\u0000deep"', _nested(random)) if b"deep" in written else written


def _change(random: Random, value: Any) -> Any:
    """Change one place: this value, or one inside of it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        how = random.random()
        if how < 0.1:
            return {name: each for name, each in value.items() if name != key}
        if how < 0.15:
            return value | {random.choice(("x", "extra", "error", "type", "name", key.upper())): value[key]}
        return value | {key: _change(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.7:
        place = random.randrange(len(value))
        return [*value[:place], _change(random, value[place]), *value[place + 1 :]]
    return random.choice(_VALUES)


def _nested(random: Random) -> bytes:
    depth = random.choice((10, 40, 200, 900, 3000, 20_000))
    start, end = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return start * depth + b"1" + end * depth


def _change_bytes(random: Random, document: bytes) -> bytes:
    start, end = sorted((random.randrange(len(document) + 1), random.randrange(len(document) + 1)))
    match random.randrange(6):
        case 0:
            return document[:start]
        case 1:
            return document[:start] + random.choice(_BYTES) + document[start:]
        case 2:
            return document[:start] + bytes([random.randrange(256)]) + document[start + 1 :]
        case 3:
            return document[:start] + document[min(end, start + 20) :]
        case 4:
            return document[:end] + document[start:]
        case _:
            return document[:start] + random.choice(_BYTES) + document[min(end, start + 5) :]
