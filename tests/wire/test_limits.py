"""What the parser refuses, and how much it keeps: lying lengths, garbage, limits, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from jetspark.errors import RemoteProtocolError
from jetspark.wire import MAX_CONTROL_LINE, MAX_PAYLOAD, AnyFrame, InfoFrame, MsgFrame, Parser, frames
from jetspark.wire import parser as python
from tests.support.cases import for_each

from .support import Peer, byte_by_byte, outcome

REFUSED: list[tuple[str, Peer, bytes]] = [
    ("negative size", "server", b"MSG a 1 -1\r\n"),
    ("size with underscore", "server", b"MSG a 1 1_0\r\n0123456789\r\n"),
    ("size with plus", "server", b"MSG a 1 +5\r\nhello\r\n"),
    ("size with tab", "server", b"MSG a 1 \t5\r\nhello\r\n"),
    ("size in hex", "server", b"MSG a 1 0x5\r\nhello\r\n"),
    ("size with a fraction", "server", b"MSG a 1 5.0\r\nhello\r\n"),
    ("size in other digits", "server", "MSG a 1 \u0665\r\nhello\r\n".encode()),
    ("size in superscript", "server", b"MSG a 1 \xb2\r\nhi\r\n"),
    ("no size", "server", b"MSG a 1 \r\n\r\n"),
    ("size of 5000 digits", "server", b"MSG a 1 " + b"9" * 5000 + b"\r\n"),
    ("size of 5000 zeros", "server", b"MSG a 1 " + b"0" * 5000 + b"\r\n\r\n"),
    ("size of 4000 digits", "server", b"MSG a 1 " + b"9" * 4000 + b"\r\n"),
    ("size over the limit", "server", b"MSG a 1 %d\r\n" % (MAX_PAYLOAD + 1)),
    ("header size of 5000 digits", "server", b"HMSG a 1 " + b"9" * 5000 + b" 5\r\n"),
    ("negative header size", "server", b"HMSG a 1 -1 5\r\nhello\r\n"),
    ("header size with underscore", "server", b"HMSG a 1 1_2 15\r\n"),
    ("no header size", "server", b"HMSG a 1  5\r\nhello\r\n"),
    ("header larger than its message", "server", b"HMSG a 1 13 12\r\n"),
    ("message with headers over the limit", "server", b"HMSG a 1 12 %d\r\n" % (MAX_PAYLOAD + 1)),
    ("payload longer than its size", "server", b"MSG a 1 4\r\nhello\r\n"),
    ("payload shorter than its size", "server", b"MSG a 1 6\r\nhello\r\nMSG a 1 6\r\n"),
    ("payload that ends in a bare line feed", "server", b"MSG a 1 5\r\nhello\n\n"),
    ("payload that ends in a bare return", "server", b"MSG a 1 5\r\nhello\r\r"),
    ("msg alone", "server", b"MSG\r\n"),
    ("msg with a size only", "server", b"MSG 0\r\n\r\n"),
    ("msg without sid", "server", b"MSG a 0\r\n\r\n"),
    ("msg with too many fields", "server", b"MSG a 1 r x 0\r\n\r\n"),
    ("hmsg alone", "server", b"HMSG\r\n"),
    ("hmsg with a size only", "server", b"HMSG 0\r\n\r\n"),
    ("hmsg with sizes only", "server", b"HMSG 0 0\r\n\r\n"),
    ("hmsg with too many fields", "server", b"HMSG a 1 r x 0 0\r\n\r\n"),
    ("an empty line", "server", b"\r\n"),
    ("a space", "server", b" \r\n"),
    ("a lower case operation", "server", b"ping\r\n"),
    ("an operation with a tail", "server", b"PINGS\r\n"),
    ("ok with a tail", "server", b"+OK then\r\n"),
    ("http", "server", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("ssh", "server", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("a tls alert", "server", b"\x15\x03\x01\x00\x02\x02\x0a\r\n"),
    ("zeros", "server", bytes(MAX_CONTROL_LINE + 2)),
    ("pub alone", "client", b"PUB\r\n"),
    ("pub without subject", "client", b"PUB 0\r\n\r\n"),
    ("pub with too many fields", "client", b"PUB a b c 0\r\n\r\n"),
    ("pub with a negative size", "client", b"PUB a -5\r\n"),
    ("pub over the limit", "client", b"PUB a %d\r\n" % (MAX_PAYLOAD + 1)),
    ("hpub alone", "client", b"HPUB\r\n"),
    ("hpub with one size", "client", b"HPUB a 5\r\nhello\r\n"),
    ("hpub whose header is too large", "client", b"HPUB a 6 5\r\nhello\r\n"),
    ("sub alone", "client", b"SUB\r\n"),
    ("sub without sid", "client", b"SUB a\r\n"),
    ("sub with too many fields", "client", b"SUB a q 1 2\r\n"),
    ("unsub alone", "client", b"UNSUB\r\n"),
    ("unsub after a negative number", "client", b"UNSUB 1 -1\r\n"),
    ("unsub after 5000 digits", "client", b"UNSUB 1 " + b"9" * 5000 + b"\r\n"),
    ("unsub with too many fields", "client", b"UNSUB 1 2 3\r\n"),
]

every_refusal = for_each(
    ("peer", "data"), [case[1:] for case in REFUSED], ids=[case[0].replace(" ", "-") for case in REFUSED]
)


@every_refusal
def test_it_is_refused_whole_byte_by_byte_and_behind_a_good_frame(peer: Peer, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="the peer sent"):
        Parser(peer).feed(data)
    step = 1 if len(data) < 8192 else 999
    assert outcome(Parser(peer), (data[i : i + step] for i in range(0, len(data), step))) == ([], True, 0)
    frames, refused, _ = outcome(Parser(peer), [b"PING\r\n" + data])
    assert (len(frames), refused) == (1, True)


def test_the_error_shows_the_start_of_what_came_and_what_to_look_at() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Parser().feed(b"HTTP/1.1 400 Bad Request" + b"x" * 1000 + b"\r\n")
    assert "HTTP/1.1 400 Bad Request" in str(caught.value)
    assert "the port of a NATS server" in str(caught.value)
    assert len(str(caught.value)) < 200


# --- limits: what is exactly at one is accepted, one byte more is not


@pytest.mark.parametrize("pieces", [lambda data: [data], byte_by_byte], ids=["whole", "byte-by-byte"])
def test_a_control_line_may_be_as_long_as_the_limit(pieces: Callable[[bytes], list[bytes]]) -> None:
    line = b"INFO " + b"x" * 15
    assert outcome(Parser(max_control_line=20), pieces(line + b"\r\n")) == ([InfoFrame(b"x" * 15)], False, 0)
    assert outcome(Parser(max_control_line=19), pieces(line + b"\r\n")) == ([], True, 0)


def test_a_control_line_that_does_not_end_is_refused_at_the_limit() -> None:
    parser = Parser(max_control_line=20)
    assert parser.feed(b"INFO " + b"x" * 15) == []
    assert parser.buffered == 20
    with pytest.raises(RemoteProtocolError, match="more than 20 bytes"):
        parser.feed(b"x")


@pytest.mark.parametrize("pieces", [lambda data: [data], byte_by_byte], ids=["whole", "byte-by-byte"])
def test_a_payload_may_be_as_large_as_the_limit(pieces: Callable[[bytes], list[bytes]]) -> None:
    data = b"MSG a 1 10\r\n0123456789\r\n"
    assert outcome(Parser(max_payload=10), pieces(data)).frames == [
        MsgFrame(b"1", b"a", b"", b"", b"0123456789")
    ]
    assert outcome(Parser(max_payload=9), pieces(data)) == ([], True, 0)


@pytest.mark.parametrize("pieces", [lambda data: [data], byte_by_byte], ids=["whole", "byte-by-byte"])
def test_a_header_counts_in_the_payload_limit(pieces: Callable[[bytes], list[bytes]]) -> None:
    data = b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    frame = MsgFrame(b"1", b"a", b"", b"NATS/1.0\r\n\r\n", b"hi")
    assert outcome(Parser(max_payload=14), pieces(data)) == ([frame], False, 0)
    assert outcome(Parser(max_payload=13), pieces(data)) == ([], True, 0)


@pytest.mark.parametrize("announced", [b"MSG a 1 11\r\n", b"HMSG a 1 11 11\r\n", b"HMSG a 1 5 11\r\n"])
def test_an_oversized_message_is_refused_before_its_bytes_arrive(announced: bytes) -> None:
    parser = Parser(max_payload=10)
    assert parser.feed(announced[:-1]) == []
    with pytest.raises(RemoteProtocolError):
        parser.feed(announced[-1:])
    assert parser.buffered == 0


# --- memory and work


class CountingParser(python.Parser):
    """Counts how often, and over how many bytes, the parser walks. Its twin keeps pieces in the same way."""

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        super().__init__(max_payload=max_payload)
        self.walks = self.walked = 0

    def _parse(self, data: bytes, append: Callable[[AnyFrame], None]) -> int:
        self.walks += 1
        self.walked += len(data)
        return super()._parse(data, append)


def test_a_large_payload_in_many_pieces_is_walked_once_and_not_once_per_piece() -> None:
    size, piece = 4 * 1024 * 1024, bytes(1024)
    parser = CountingParser()
    assert parser.feed(b"MSG a 1 %d\r\n" % size) == []
    for _ in range(size // len(piece)):
        assert parser.feed(piece) == []
    (frame,) = parser.feed(b"\r\n")
    assert isinstance(frame, frames.MsgFrame)
    assert frame.data == bytes(size)
    assert parser.walks == 2
    assert parser.walked < size + 100


def test_small_messages_in_large_reads_are_walked_once_whatever_the_reads_end_in() -> None:
    data = b"MSG a.b.c 1 16\r\n0123456789abcdef\r\n" * 10_000
    parser = CountingParser()
    messages = [frame for i in range(0, len(data), 4096) for frame in parser.feed(data[i : i + 4096])]
    assert len(messages) == 10_000
    assert parser.walked < len(data) * 1.01


@for_each(
    "endless",
    [b"x", b"INFO ", b"\r", b"MSG a 1 1000\r\n", b"HMSG a 1 500 1000\r\n", b"MSG a 1 900\r\n" + bytes(902)],
    ids=["letters", "words", "returns", "announcements", "headers", "payloads-without-end"],
)
def test_no_input_makes_the_parser_keep_more_than_one_frame(endless: bytes) -> None:
    parser = Parser(max_control_line=100, max_payload=1000)
    data = endless * (10_000 // len(endless))
    for i in range(0, len(data), 7):
        try:
            parser.feed(data[i : i + 7])
        except RemoteProtocolError:
            break
        assert parser.buffered <= 100 + 2 + 1000 + 2
    else:
        pytest.fail("the input was accepted without an end")


@pytest.mark.parametrize("kind", [Parser, python.Parser], ids=["used", "python"])
def test_a_frame_that_trickles_in_needs_little_more_memory_than_its_bytes(kind: type[Parser]) -> None:
    size = 100_000
    parser = kind()
    parser.feed(b"MSG a 1 %d\r\n" % size)
    tracemalloc.start()
    try:
        for _ in range(size // 2):
            parser.feed(bytes(bytearray(b"xy")))  # A new object each time, as from a socket.
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parser.buffered == len(b"MSG a 1 %d\r\n" % size) + size
    assert kept < 1.5 * size
    assert peak < 2 * size
    (frame,) = parser.feed(b"\r\n")
    assert isinstance(frame, frames.MsgFrame | MsgFrame)
    assert frame.data == b"xy" * (size // 2)


def test_nothing_is_kept_once_a_frame_is_complete() -> None:
    parser = Parser()
    parser.feed(b"MSG a 1 100000\r\n" + bytes(50_000))
    assert parser.buffered == 50_016
    parser.feed(bytes(50_000) + b"\r\nPI")
    assert parser.buffered == 2
