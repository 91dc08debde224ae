"""What holds for every input. 20,000 cases in all when tests are thorough, otherwise a quarter of them."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from itertools import product

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from jetspark.errors import RemoteProtocolError, UsageError
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
from jetspark.wire.headers import Headers, encode_headers, has_status, parse_status
from jetspark.wire.subjects import (
    check_filter,
    check_name,
    check_queue,
    check_subject,
    subject_matches,
    subjects_overlap,
)
from tests.support.effort import effort

from .support import Peer, byte_by_byte, cut, encode_frame, outcome

CASES = {
    "round trip, server": 2500,
    "round trip, client": 2500,
    "mutated, server": 4000,
    "mutated, client": 4000,
    "garbage": 2500,
    "headers": 1500,
    "header blocks": 1000,
    "subjects": 1000,
    "matching": 1000,
}


def test_there_are_twenty_thousand_cases() -> None:
    assert sum(CASES.values()) == 20_000


def cases(name: str) -> settings:
    return settings(
        max_examples=effort(CASES[name] // 4, CASES[name]),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


# --- frames

field = st.sampled_from(
    [b"a", b"a.b", b"$JS.ACK.S.C.1.2.3.4.5", b"1", b"99", b"\xff\x80", b"0", b"MSG", b"5"]
)
maybe_field = st.just(b"") | field
blob = st.sampled_from([b"", b"x", b"\r\n", b"\r", b"\n", b"PING\r\n", b"MSG a 1 1\r\nx\r\n"]) | st.binary(
    max_size=20
)
block = st.sampled_from(
    [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 404 No Messages\r\n\r\n", b"NATS/1.0\r\nA: 1\r\n\r\n"]
)
json = st.sampled_from([b"{}", b'{"server_id":"x","max_payload":1048576}', b'{"a": "b c"}'])
text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)

server_frame: st.SearchStrategy[AnyFrame] = st.one_of(
    st.builds(MsgFrame, field, field, maybe_field, block, blob),
    st.builds(MsgFrame, field, field, maybe_field, block, blob),
    st.sampled_from([PING, PONG, OK]),
    st.builds(InfoFrame, json),
    st.builds(ErrFrame, text),
)
client_frame: st.SearchStrategy[AnyFrame] = st.one_of(
    st.builds(PubFrame, field, maybe_field, block, blob),
    st.builds(PubFrame, field, maybe_field, block, blob),
    st.builds(SubFrame, field, field, maybe_field),
    st.builds(UnsubFrame, field, st.integers(0, 2**63)),
    st.sampled_from([PING, PONG]),
    st.builds(ConnectFrame, json),
)
places = st.lists(st.integers(0, 300), max_size=6)


def check_round_trip(peer: Peer, frames: list[AnyFrame], cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, frames))
    assert outcome(Parser(peer), [data]) == (frames, False, 0)
    assert outcome(Parser(peer), cut(data, cuts)) == (frames, False, 0)


@cases("round trip, server")
@given(st.lists(server_frame, max_size=6), places)
def test_what_a_server_writes_is_read_again_in_any_pieces(frames: list[AnyFrame], cuts: list[int]) -> None:
    check_round_trip("server", frames, cuts)


@cases("round trip, client")
@given(st.lists(client_frame, max_size=6), places)
def test_what_a_client_writes_is_read_again_in_any_pieces(frames: list[AnyFrame], cuts: list[int]) -> None:
    check_round_trip("client", frames, cuts)


# --- mutations: a few good frames from a table, damaged. A table keeps a case cheap.

SAMPLES: dict[Peer, list[bytes]] = {
    "server": [
        b"PING\r\n",
        b"+OK\r\n",
        b"-ERR 'Stale Connection'\r\n",
        b'INFO {"max_payload":1} \r\n',
        b"MSG a.b 1 5\r\nhello\r\n",
        b"MSG a 1 r 4\r\n\r\n\r\n\r\n",
        b"MSG a 1 0\r\n\r\n",
        b"HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
    ],
    "client": [
        b"PONG\r\n",
        b'CONNECT {"verbose":false}\r\n',
        b"SUB a.* q 1\r\n",
        b"SUB a 2\r\n",
        b"UNSUB 1 10\r\n",
        b"UNSUB 2\r\n",
        b"PUB a.b 5\r\nhello\r\n",
        b"PUB a r 4\r\n\r\n\r\n\r\n",
        b"HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    ],
}
# Bytes that mean something to the protocol are the likelier trouble.
INSERTS = [
    *(bytes([byte]) for byte in b"\r\n 0159-+_'MHPS\x00\xff\t"),
    b"\r\n",
    b"  ",
    b"99999999999999999999",
]
mutation = st.tuples(
    st.sampled_from(["flip", "insert", "insert", "delete", "truncate", "repeat"]),
    st.integers(0, 255),
    st.integers(0, 255),
)
limits = st.sampled_from(
    [(65536, 65536), (64, 64), (11, 14), (10, 5)]
)  # the small ones are exactly what some frames need


def mutated(data: bytes, mutations: list[tuple[str, int, int]]) -> bytes:
    for kind, place, value in mutations:
        at = place % (len(data) + 1)
        before, after = data[:at], data[at:]
        match kind:
            case "flip":
                data = before + bytes([after[0] ^ (1 << value % 8)]) + after[1:] if after else data
            case "insert":
                data = before + INSERTS[value % len(INSERTS)] + after
            case "delete":
                data = before + after[1 + value % 3 :]
            case "truncate":
                data = before if value % 4 == 0 else before + after[value % 16 :]
            case "repeat":
                data = before + after[: value % 16] + after
    return data


def check_any_input(peer: Peer, data: bytes, cuts: list[int], max_sizes: tuple[int, int]) -> None:
    """Frames or RemoteProtocolError, nothing else; the same for any split; within the limits."""
    max_control_line, max_payload = max_sizes

    def new() -> Parser:
        return Parser(peer, max_control_line=max_control_line, max_payload=max_payload)

    whole = outcome(new(), [data])
    assert outcome(new(), cut(data, cuts)) == whole
    assert outcome(new(), byte_by_byte(data)) == whole
    assert whole.buffered <= max_control_line + 2 + max_payload + 1
    for frame in whole.frames:
        if isinstance(frame, MsgFrame | PubFrame):
            assert len(frame.header) + len(frame.data) <= max_payload


@cases("mutated, server")
@given(
    st.lists(st.sampled_from(SAMPLES["server"]), min_size=1, max_size=4),
    st.lists(mutation, min_size=1, max_size=4),
    places,
    limits,
)
@example([b"PING\r\n"], [("insert", 6, 0)], [], (65536, 65536))
def test_a_damaged_stream_of_a_server_gives_the_same_outcome_in_any_pieces(
    frames: list[bytes], mutations: list[tuple[str, int, int]], cuts: list[int], max_sizes: tuple[int, int]
) -> None:
    check_any_input("server", mutated(b"".join(frames), mutations), cuts, max_sizes)


@cases("mutated, client")
@given(
    st.lists(st.sampled_from(SAMPLES["client"]), min_size=1, max_size=4),
    st.lists(mutation, min_size=1, max_size=4),
    places,
    limits,
)
def test_a_damaged_stream_of_a_client_gives_the_same_outcome_in_any_pieces(
    frames: list[bytes], mutations: list[tuple[str, int, int]], cuts: list[int], max_sizes: tuple[int, int]
) -> None:
    check_any_input("client", mutated(b"".join(frames), mutations), cuts, max_sizes)


WORDS = [b"MSG", b"HMSG", b"PUB", b"HPUB", b"SUB", b"UNSUB", b"INFO", b"-ERR", b"+OK", b"PING", b"CONNECT"]
PARTS = [
    *WORDS,
    b" ",
    b" ",
    b" ",
    b"\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"0",
    b"1",
    b"2",
    b"a",
    b"'",
    b"\x00",
    b"9" * 4301,
]


@cases("garbage")
@given(
    st.sampled_from(["server", "client"]),
    st.lists(st.sampled_from(PARTS), max_size=16).map(b"".join) | st.binary(max_size=64),
    places,
    limits,
)
@example("server", b"HMSG\r\n", [], (64, 64))
@example("client", b"HPUB\r\n", [], (64, 64))
@example("server", b"PING\r\nHMSG 9\r\n", [], (64, 64))
def test_garbage_is_refused_or_read_the_same_in_any_pieces(
    peer: Peer, data: bytes, cuts: list[int], max_sizes: tuple[int, int]
) -> None:
    if len(data) > 4300:  # a byte at a time it would be slow, and test_limits.py has it
        assert outcome(Parser(peer), cut(data, cuts)) == outcome(Parser(peer), [data])
    else:
        check_any_input(peer, data, cuts, max_sizes)


# --- headers

header_name = st.sampled_from(["A", "a", "Nats-Msg-Id", "NATS-MSG-ID", "x!#/-~", "9"]) | st.text(
    "".join(set(string.ascii_letters + string.digits + string.punctuation) - {":"}), min_size=1, max_size=8
)
header_value = st.sampled_from(
    ["", " ", "  x  ", "a: b", "\t", "é", "\u2028", "\x0b\x85", "\udcff"]
) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=12)


@cases("headers")
@given(st.lists(st.tuples(header_name, st.lists(header_value, min_size=1, max_size=3)), max_size=5))
def test_headers_are_read_as_they_were_written(items: list[tuple[str, list[str]]]) -> None:
    given_headers = dict(items)
    expected: dict[str, list[str]] = {}
    for name, values in given_headers.items():
        expected.setdefault(name.lower(), []).extend(values)

    encoded = encode_headers(given_headers)
    parsed = Headers.parse(encoded)
    assert {name.lower(): values for name, values in parsed.multi_items()} == expected
    for name, values in expected.items():
        for spelling in (name, name.upper(), name.title()):
            assert spelling in parsed
            assert parsed[spelling] == values[0]
            assert parsed.get_all(spelling) == values
    assert parsed == Headers(given_headers) == given_headers
    assert Headers.parse(encode_headers(parsed)) == parsed
    assert parsed.status is None
    assert not has_status(encoded)


header_part = st.sampled_from(
    [
        b"NATS/1.0",
        b"NATS/1.0 ",
        b" ",
        b"404",
        b"No Messages",
        b"\r\n",
        b"\r\n",
        b"A: 1",
        b":",
        b"\xff",
        b"\xc2\xb2",
    ]
)


@cases("header blocks")
@given(st.lists(header_part, max_size=10).map(b"".join), st.booleans(), st.binary(max_size=10))
def test_any_header_block_is_read_or_kept(middle: bytes, versioned: bool, tail: bytes) -> None:
    data = (b"NATS/1.0" if versioned else b"") + middle + tail
    headers = Headers.parse(data)
    if "" in headers:
        assert headers[""].encode("utf-8", "surrogateescape") == data
    else:
        assert not data or data.endswith(b"\r\n\r\n")
    try:
        status = parse_status(data)
    except RemoteProtocolError:
        assert ("" in headers) == bool(data)
        return
    assert has_status(data) == (status[0] is not None)
    assert (headers.status, headers.description) == status


# --- subjects

risky_text = st.text(
    st.sampled_from("ab.*>/\\-_ \t\r\n\x00\x1f\x7f\x85\xa0\u2028é日\udc0a\udcff") | st.characters(),
    max_size=8,
)


def accepted(check: Callable[[str, str], bytes | str], value: str) -> bytes | None:
    try:
        result = check(value, "argument")
    except UsageError:
        return None
    return result if isinstance(result, bytes) else result.encode("utf-8", "surrogateescape")


@cases("subjects")
@given(risky_text)
def test_what_is_accepted_is_one_field_with_no_empty_token(value: str) -> None:
    subject, pattern = accepted(check_subject, value), accepted(check_filter, value)
    queue, name = accepted(check_queue, value), accepted(check_name, value)
    for each in (subject, pattern, queue, name):
        if each is not None:
            assert each
            assert not re.search(rb"[\x00-\x20\x7f]", each)
            assert each.split() == [each]
            assert each.decode("utf-8", "surrogateescape") == value
    for each in (subject, pattern):
        if each is not None:
            assert b"" not in each.split(b".")
    if subject is not None:
        assert pattern == subject
        assert not {b"*", b">"} & set(subject.split(b"."))
    if pattern is not None:
        assert b">" not in pattern.split(b".")[:-1]
    if name is not None:
        assert subject == queue == name
        assert not re.search(rb"[.*>/\\]", name)


token = st.sampled_from(["a", "b", "ab", "a*", "+"])
literal = st.lists(token, min_size=1, max_size=4).map(".".join)
pattern_of_tokens = st.tuples(
    st.lists(st.sampled_from(["a", "b", "ab", "a*", "+", "*", "*"]), max_size=4), st.booleans()
).map(lambda parts: ".".join([*parts[0], *([">"] if parts[1] else [])]))


def as_regex(pattern: str) -> str:
    """The pattern as a regular expression, said in the plainest way."""
    words = {"*": r"[^.]+", ">": r"[^.]+(\.[^.]+)*"}
    return r"\.".join(words.get(each) or re.escape(each) for each in pattern.split("."))


@cases("matching")
@given(pattern_of_tokens, literal)
def test_matching_agrees_with_a_regular_expression(pattern: str, subject: str) -> None:
    assume(pattern)
    assert subject_matches(pattern, subject) == bool(re.fullmatch(as_regex(pattern), subject))


PATTERNS = [
    ".".join(tokens)
    for size in (1, 2, 3)
    for tokens in product("ab*>", repeat=size)
    if ">" not in tokens[:-1]
]
# One token more than any pattern has: what `>` stands for can be longer, but need not be.
SUBJECTS = [".".join(tokens) for size in (1, 2, 3, 4) for tokens in product("abc", repeat=size)]


def test_overlap_agrees_with_trying_every_subject_on_every_pair_of_small_patterns() -> None:
    matched = {each: {subject for subject in SUBJECTS if subject_matches(each, subject)} for each in PATTERNS}
    for one, other in product(PATTERNS, repeat=2):
        assert subjects_overlap(one, other) == bool(matched[one] & matched[other]), (one, other)
