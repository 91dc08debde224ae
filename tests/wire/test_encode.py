"""Frames to bytes, by example: exactly what goes on the wire."""

from __future__ import annotations

import pytest

from jetspark.errors import UsageError
from jetspark.wire import (
    PING,
    PONG,
    AnyFrame,
    ConnectFrame,
    ErrFrame,
    InfoFrame,
    MsgFrame,
    Parser,
    PubFrame,
    SubFrame,
    UnsubFrame,
    encode,
)
from jetspark.wire.headers import encode_headers
from jetspark.wire.subjects import check_filter, check_queue, check_subject
from tests.support.cases import for_each

from .support import Peer

HEADER = b"NATS/1.0\r\nA: 1\r\n\r\n"

CASES: list[tuple[bytes, bytes, Peer, AnyFrame]] = [
    (encode.PING, b"PING\r\n", "client", PING),
    (encode.PONG, b"PONG\r\n", "client", PONG),
    (encode.connect(b'{"a":1}'), b'CONNECT {"a":1}\r\n', "client", ConnectFrame(b'{"a":1}')),
    (encode.pub(b"a.b", b"", b"hi"), b"PUB a.b 2\r\nhi\r\n", "client", PubFrame(b"a.b", b"", b"", b"hi")),
    (encode.pub(b"a", b"r", b"hi"), b"PUB a r 2\r\nhi\r\n", "client", PubFrame(b"a", b"r", b"", b"hi")),
    (encode.pub(b"a", b"", b""), b"PUB a 0\r\n\r\n", "client", PubFrame(b"a", b"", b"", b"")),
    (encode.pub(b"a", b"", b"\r\n"), b"PUB a 2\r\n\r\n\r\n", "client", PubFrame(b"a", b"", b"", b"\r\n")),
    (
        encode.hpub(b"a", b"", HEADER, b"hi"),
        b"HPUB a 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nhi\r\n",
        "client",
        PubFrame(b"a", b"", HEADER, b"hi"),
    ),
    (
        encode.hpub(b"a", b"r", HEADER, b""),
        b"HPUB a r 18 18\r\nNATS/1.0\r\nA: 1\r\n\r\n\r\n",
        "client",
        PubFrame(b"a", b"r", HEADER, b""),
    ),
    (encode.sub(b"a.*", b"", b"7"), b"SUB a.* 7\r\n", "client", SubFrame(b"7", b"a.*", b"")),
    (encode.sub(b"a.>", b"q", b"7"), b"SUB a.> q 7\r\n", "client", SubFrame(b"7", b"a.>", b"q")),
    (encode.unsub(b"7"), b"UNSUB 7\r\n", "client", UnsubFrame(b"7", 0)),
    (encode.unsub(b"7", 5), b"UNSUB 7 5\r\n", "client", UnsubFrame(b"7", 5)),
    (encode.info(b"{}"), b"INFO {}\r\n", "server", InfoFrame(b"{}")),
    (encode.err("Stale Connection"), b"-ERR 'Stale Connection'\r\n", "server", ErrFrame("Stale Connection")),
    (
        encode.msg(b"7", b"a", b"", b"", b"hi"),
        b"MSG a 7 2\r\nhi\r\n",
        "server",
        MsgFrame(b"7", b"a", b"", b"", b"hi"),
    ),
    (
        encode.msg(b"7", b"a", b"r", b"", b""),
        b"MSG a 7 r 0\r\n\r\n",
        "server",
        MsgFrame(b"7", b"a", b"r", b"", b""),
    ),
    (
        encode.msg(b"7", b"a", b"", HEADER, b"hi"),
        b"HMSG a 7 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nhi\r\n",
        "server",
        MsgFrame(b"7", b"a", b"", HEADER, b"hi"),
    ),
    (
        encode.msg(b"7", b"a", b"r", HEADER, b""),
        b"HMSG a 7 r 18 18\r\nNATS/1.0\r\nA: 1\r\n\r\n\r\n",
        "server",
        MsgFrame(b"7", b"a", b"r", HEADER, b""),
    ),
]


@for_each(("written", "expected", "peer", "frame"), CASES, ids=[repr(case[1])[2:-1] for case in CASES])
def test_a_frame_is_written_as_the_protocol_says_and_read_again(
    written: bytes, expected: bytes, peer: Peer, frame: AnyFrame
) -> None:
    assert written == expected
    assert Parser(peer).feed(written) == [frame]


@for_each("evil", ["a\r\nPUB b 0\r\n", "a b", "a\x00", "a\n", ""])
def test_what_is_checked_before_it_is_written_can_not_add_a_field_or_a_frame(evil: str) -> None:
    with pytest.raises(UsageError, match="subject"):
        encode.pub(check_subject(evil), b"", b"")
    with pytest.raises(UsageError, match="reply"):
        encode.pub(b"a", check_subject(evil, "reply"), b"")
    with pytest.raises(UsageError, match="subject"):
        encode.sub(check_filter(evil), b"", b"1")
    with pytest.raises(UsageError, match="queue"):
        encode.sub(b"a", check_queue(evil), b"1")


def test_a_header_value_can_not_smuggle_in_a_message_id() -> None:
    # The server took the message for a duplicate, dropped it and reported success.
    with pytest.raises(UsageError, match="headers"):
        encode.hpub(b"a", b"", encode_headers({"N": "1\r\nNats-Msg-Id: A"}), b"")


def test_sizes_count_bytes_and_not_characters() -> None:
    header = encode_headers({"Ort": "Köln"})
    assert encode.hpub("é".encode(), b"", header, "日".encode()).startswith("HPUB é 24 27\r\n".encode())
