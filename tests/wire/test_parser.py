"""What the parser accepts: every frame of both directions, cut in every way, and recorded transcripts."""

from __future__ import annotations

import pytest

from jetspark.errors import RemoteProtocolError
from jetspark.wire import (
    OK,
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
)
from jetspark.wire.headers import Headers
from tests.support.cases import for_each

from .support import TRANSCRIPTS, Peer, byte_by_byte, cut, encode_frame, outcome, read_transcript

HEADER = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
STATUS = b"NATS/1.0 404 No Messages\r\n\r\n"

CASES: list[tuple[str, Peer, bytes, AnyFrame]] = [
    ("ping from the server", "server", b"PING\r\n", PING),
    ("pong from the server", "server", b"PONG\r\n", PONG),
    ("ok", "server", b"+OK\r\n", OK),
    ("info", "server", b'INFO {"a":1}\r\n', InfoFrame(b'{"a":1}')),
    ("info with a space at its end", "server", b'INFO {"a": 1} \r\n', InfoFrame(b'{"a": 1}')),
    ("info without json", "server", b"INFO\r\n", InfoFrame(b"")),
    ("err", "server", b"-ERR 'Stale Connection'\r\n", ErrFrame("Stale Connection")),
    ("err without quotes", "server", b"-ERR Slow Consumer\r\n", ErrFrame("Slow Consumer")),
    (
        "err with quotes inside",
        "server",
        b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n",
        ErrFrame('Permissions Violation for Publish to "a.b"'),
    ),
    ("err with quotes at its ends", "server", b"-ERR ''a' or 'b''\r\n", ErrFrame("'a' or 'b'")),
    ("err that is no utf-8", "server", b"-ERR '\xff'\r\n", ErrFrame("\ufffd")),
    ("err without text", "server", b"-ERR\r\n", ErrFrame("")),
    ("msg", "server", b"MSG a.b 1 5\r\nhello\r\n", MsgFrame(b"1", b"a.b", b"", b"", b"hello")),
    ("msg with reply", "server", b"MSG a 12 r.1 2\r\nhi\r\n", MsgFrame(b"12", b"a", b"r.1", b"", b"hi")),
    ("msg without payload", "server", b"MSG a 1 0\r\n\r\n", MsgFrame(b"1", b"a", b"", b"", b"")),
    ("msg with leading zeros", "server", b"MSG a 1 002\r\nhi\r\n", MsgFrame(b"1", b"a", b"", b"", b"hi")),
    (
        "msg with line breaks in it",
        "server",
        b"MSG a 1 10\r\n\r\nPING\r\n\r\n\r\n",
        MsgFrame(b"1", b"a", b"", b"", b"\r\nPING\r\n\r\n"),
    ),
    (
        "msg with a message in it",
        "server",
        b"MSG a 1 14\r\nMSG b 2 1\r\nx\r\n\r\n",
        MsgFrame(b"1", b"a", b"", b"", b"MSG b 2 1\r\nx\r\n"),
    ),
    (
        "msg whose subject is no utf-8",
        "server",
        b"MSG \xff\xfe 1 1\r\n\x00\r\n",
        MsgFrame(b"1", b"\xff\xfe", b"", b"", b"\x00"),
    ),
    (
        "hmsg",
        "server",
        b"HMSG a 1 24 29\r\n" + HEADER + b"hello\r\n",
        MsgFrame(b"1", b"a", b"", HEADER, b"hello"),
    ),
    (
        "hmsg with reply",
        "server",
        b"HMSG a 1 r 24 26\r\n" + HEADER + b"\r\n\r\n",
        MsgFrame(b"1", b"a", b"r", HEADER, b"\r\n"),
    ),
    (
        "hmsg without payload",
        "server",
        b"HMSG a 1 24 24\r\n" + HEADER + b"\r\n",
        MsgFrame(b"1", b"a", b"", HEADER, b""),
    ),
    (
        "hmsg with a status only",
        "server",
        b"HMSG _INBOX.x 1 28 28\r\n" + STATUS + b"\r\n",
        MsgFrame(b"1", b"_INBOX.x", b"", STATUS, b""),
    ),
    (
        "hmsg without a header",
        "server",
        b"HMSG a 1 0 2\r\nhi\r\n",
        MsgFrame(b"1", b"a", b"", b"", b"hi"),
    ),
    ("ping from the client", "client", b"PING\r\n", PING),
    ("pong from the client", "client", b"PONG\r\n", PONG),
    ("connect", "client", b'CONNECT {"name":"a b"}\r\n', ConnectFrame(b'{"name":"a b"}')),
    ("sub", "client", b"SUB a.* 1\r\n", SubFrame(b"1", b"a.*", b"")),
    ("sub with queue", "client", b"SUB a.> q 1\r\n", SubFrame(b"1", b"a.>", b"q")),
    ("unsub", "client", b"UNSUB 1\r\n", UnsubFrame(b"1", 0)),
    ("unsub after some", "client", b"UNSUB 1 10\r\n", UnsubFrame(b"1", 10)),
    ("pub", "client", b"PUB a.b 5\r\nhello\r\n", PubFrame(b"a.b", b"", b"", b"hello")),
    ("pub with reply", "client", b"PUB a r 2\r\nhi\r\n", PubFrame(b"a", b"r", b"", b"hi")),
    ("pub without payload", "client", b"PUB a 0\r\n\r\n", PubFrame(b"a", b"", b"", b"")),
    (
        "pub with a line break in it",
        "client",
        b"PUB a 4\r\n\r\n\r\n\r\n",
        PubFrame(b"a", b"", b"", b"\r\n\r\n"),
    ),
    ("hpub", "client", b"HPUB a 24 25\r\n" + HEADER + b"x\r\n", PubFrame(b"a", b"", HEADER, b"x")),
    (
        "hpub with reply",
        "client",
        b"HPUB a r 24 25\r\n" + HEADER + b"x\r\n",
        PubFrame(b"a", b"r", HEADER, b"x"),
    ),
    (
        "hpub without payload",
        "client",
        b"HPUB a 24 24\r\n" + HEADER + b"\r\n",
        PubFrame(b"a", b"", HEADER, b""),
    ),
]

TRAILING: dict[Peer, tuple[bytes, AnyFrame]] = {
    "server": (b"MSG t 9 r 4\r\n\r\n\r\n\r\n", MsgFrame(b"9", b"t", b"r", b"", b"\r\n\r\n")),
    "client": (b"PUB t r 4\r\n\r\n\r\n\r\n", PubFrame(b"t", b"r", b"", b"\r\n\r\n")),
}

every_case = for_each(
    ("peer", "data", "frame"), [case[1:] for case in CASES], ids=[case[0].replace(" ", "-") for case in CASES]
)


@every_case
def test_a_frame_is_parsed_whole(peer: Peer, data: bytes, frame: AnyFrame) -> None:
    assert outcome(Parser(peer), [data]) == ([frame], False, 0)


@every_case
def test_a_frame_is_parsed_byte_by_byte_and_not_before_its_last_byte(
    peer: Peer, data: bytes, frame: AnyFrame
) -> None:
    parser = Parser(peer)
    for fed, byte in enumerate(byte_by_byte(data[:-1]), start=1):
        assert parser.feed(byte) == []
        assert parser.buffered == fed
    assert parser.feed(data[-1:]) == [frame]
    assert parser.buffered == 0


@every_case
def test_a_frame_is_parsed_with_any_part_of_the_next_one_behind_it(
    peer: Peer, data: bytes, frame: AnyFrame
) -> None:
    trailing, following = TRAILING[peer]
    for size in range(len(trailing)):
        parser = Parser(peer)
        assert parser.feed(data + trailing[:size]) == [frame]
        assert parser.buffered == size
        assert parser.feed(trailing[size:] + data) == [following, frame]
        assert parser.buffered == 0


@every_case
def test_a_frame_is_parsed_in_any_two_pieces_amid_its_like(peer: Peer, data: bytes, frame: AnyFrame) -> None:
    three = data * 3
    for place in range(len(three) + 1):
        assert outcome(Parser(peer), cut(three, [place])) == ([frame] * 3, False, 0)


@every_case
def test_a_frame_of_the_other_direction_is_refused(peer: Peer, data: bytes, frame: AnyFrame) -> None:
    other = Parser("client" if peer == "server" else "server")
    if frame in (PING, PONG):
        assert other.feed(data) == [frame]
    else:
        with pytest.raises(RemoteProtocolError, match="unknown operation"):
            other.feed(data)


def test_every_frame_is_among_the_cases_in_its_direction() -> None:
    kinds = {(peer, type(frame).__name__) for _, peer, _, frame in CASES}
    both = {"PingFrame", "PongFrame"}
    assert {kind for peer, kind in kinds if peer == "server"} == both | {
        "OkFrame",
        "InfoFrame",
        "ErrFrame",
        "MsgFrame",
    }
    assert {kind for peer, kind in kinds if peer == "client"} == both | {
        "ConnectFrame",
        "SubFrame",
        "UnsubFrame",
        "PubFrame",
    }


def test_the_default_peer_is_a_server() -> None:
    assert Parser().feed(b"+OK\r\n") == [OK]


def test_nothing_gives_nothing() -> None:
    parser = Parser()
    assert parser.feed(b"") == []
    assert parser.feed(b"PI") == []
    assert parser.feed(b"") == []
    assert parser.feed(b"NG\r\n") == [PING]


def test_frames_before_an_error_are_returned_and_the_error_is_raised_from_then_on() -> None:
    parser = Parser()
    assert parser.feed(b"-ERR 'Authorization Violation'\r\ngarbage\r\n") == [
        ErrFrame("Authorization Violation")
    ]
    assert isinstance(parser.error, RemoteProtocolError)
    for data in (b"", b"PING\r\n"):
        with pytest.raises(RemoteProtocolError, match="garbage"):
            parser.feed(data)


# --- recorded transcripts

NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("*.txt"))
every_stream = for_each(("name", "peer"), [(name, peer) for name in NAMES for peer in ("server", "client")])


@every_stream
def test_a_transcript_survives_every_single_cut_and_every_pair_of_cuts(name: str, peer: Peer) -> None:
    data = read_transcript(name)[peer]
    frames = Parser(peer).feed(data)
    for first in range(len(data) + 1):
        head, tail = data[:first], data[first:]
        for second in range(len(tail) + 1):  # at 0 and at the end it is a single cut
            parser = Parser(peer)
            assert parser.feed(head) + parser.feed(tail[:second]) + parser.feed(tail[second:]) == frames
            assert parser.buffered == 0


@every_stream
def test_a_transcript_is_parsed_byte_by_byte(name: str, peer: Peer) -> None:
    data = read_transcript(name)[peer]
    assert outcome(Parser(peer), byte_by_byte(data)) == (Parser(peer).feed(data), False, 0)


@every_stream
def test_a_transcript_is_written_again_as_it_was_recorded(name: str, peer: Peer) -> None:
    data = read_transcript(name)[peer]
    written = b"".join(map(encode_frame, Parser(peer).feed(data)))
    assert written == data.replace(b"} \r\n", b"}\r\n")  # the server writes a space behind its INFO


def test_the_pull_transcript_holds_the_statuses_and_messages_of_a_fetch() -> None:
    frames = Parser().feed(read_transcript("pull")["server"])
    messages = [frame for frame in frames if isinstance(frame, MsgFrame)]
    headers = [Headers.parse(message.header) for message in messages]
    assert [(each.status, each.description) for each in headers] == [
        (404, "No Messages"),
        (None, ""),
        (None, ""),
        (408, "Request Timeout"),
        (100, "Idle Heartbeat"),
    ]
    assert [message.data for message in messages] == [b"", b"one", b"two", b"", b""]
    assert [message.reply[:8] for message in messages] == [b"", b"$JS.ACK.", b"$JS.ACK.", b"", b""]
    assert headers[2] == {"Nats-Msg-Id": "2"}
    assert headers[3]["nats-pending-messages"] == "1"
    assert headers[4]["nats-last-consumer"] == "2"


def test_the_core_transcript_holds_no_responders_and_a_payload_of_line_breaks() -> None:
    frames = Parser().feed(read_transcript("core")["server"])
    messages = [frame for frame in frames if isinstance(frame, MsgFrame)]
    assert [message.data for message in messages] == [b"hello", b"", b"\r\n\r\n", b""]
    assert Headers.parse(messages[2].header) == {"Key": "a: b "}
    assert Headers.parse(messages[3].header).status == 503


def test_the_transcripts_hold_the_errors_of_wrong_credentials_and_missing_permissions() -> None:
    errors = {
        name: [
            frame.message
            for frame in Parser().feed(read_transcript(name)["server"])
            if isinstance(frame, ErrFrame)
        ]
        for name in NAMES
    }
    assert errors == {
        "core": [],
        "pull": [],
        "wrong_password": ["Authorization Violation"],
        "permissions": [
            'Permissions Violation for Subscription to "secret.>" using queue "q"',
            'Permissions Violation for Publish to "secret"',
        ],
    }
