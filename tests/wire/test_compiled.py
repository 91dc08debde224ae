"""The compiled twin does what the Python version does: on any input, in any pieces."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jetspark.wire
from jetspark.arrow import record_batch, with_headers_as_columns
from jetspark.errors import NotJetStreamMessage, RemoteProtocolError, UsageError
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.model.requests import parse_pub_ack
from jetspark.wire import bulk, encode, frames, parser, queue
from jetspark.wire.headers import Headers
from tests.support.cases import for_each
from tests.support.effort import effort
from tests.wire.support import Peer, cut
from tests.wire.test_properties import (
    INSERTS,
    SAMPLES,
    blob,
    block,
    field,
    limits,
    maybe_field,
    mutated,
    mutation,
    places,
)

compiled = import_module("jetspark.wire.compiled")

many = settings(max_examples=effort(500, 20_000))


def test_the_compiled_twin_is_used_unless_python_is_asked_for() -> None:
    pure = os.environ.get("JETSPARK_PURE", "0") not in ("", "0")
    assert jetspark.wire.COMPILED is not pure
    assert jetspark.wire.Parser is (parser.Parser if pure else compiled.Parser)


STALE = """
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

stale = ModuleType("jetspark.wire.compiled")
stale.__spec__ = ModuleSpec(stale.__name__, None)
sys.modules[stale.__name__] = stale
import jetspark.wire
"""


def test_a_compiled_part_of_another_version_says_what_to_do() -> None:
    result = subprocess.run(
        [sys.executable, "-c", STALE],
        env=os.environ | {"JETSPARK_PURE": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr.endswith(
        "ImportError: the compiled part of jetspark is older than the rest. "
        "Install jetspark again: make install\n"
    )


# --- parsing


def fields(frame: Any) -> Any:
    """Something to compare: the two kinds of messages are not equal by themselves."""
    if isinstance(frame, compiled.MsgFrame | frames.MsgFrame):
        return frame.sid, frame.subject, frame.reply, frame.header, frame.data
    return frame


def told(parsing: Any, pieces: list[bytes]) -> Any:
    """Everything that a parser tells."""
    steps: list[Any] = []
    for piece in pieces:
        try:
            steps.append([fields(frame) for frame in parsing.feed(piece)])
        except RemoteProtocolError as error:
            steps.append(str(error))
        steps.append((parsing.buffered, str(parsing.error)))
    return steps


def check_twins(peer: Peer, pieces: list[bytes], sizes: tuple[int, int]) -> None:
    options: Any = {"max_control_line": sizes[0], "max_payload": sizes[1]}
    assert told(compiled.Parser(peer, **options), pieces) == told(parser.Parser(peer, **options), pieces)


peers = st.sampled_from(["server", "client"])


@many
@given(st.data(), peers, st.lists(mutation, max_size=4), places, limits)
def test_damaged_frames_are_read_or_refused_in_the_same_words(
    data: st.DataObject,
    peer: Peer,
    mutations: list[tuple[str, int, int]],
    cuts: list[int],
    sizes: tuple[int, int],
) -> None:
    sent = b"".join(data.draw(st.lists(st.sampled_from(SAMPLES[peer]), min_size=1, max_size=4)))
    check_twins(peer, cut(mutated(sent, mutations), cuts), sizes)


pieces_of_lines = st.sampled_from(
    [
        *INSERTS,
        b"MSG",
        b"HMSG",
        b"PUB",
        b"HPUB",
        b" ",
        b" ",
        b"5",
        b"\r\nhello\r\n",
        b"a b c d e f g h 2\r\nhi\r\n",
    ]
)


@many
@given(peers, st.lists(pieces_of_lines, max_size=12).map(b"".join), places, limits)
def test_any_mixture_of_what_the_protocol_knows(
    peer: Peer, sent: bytes, cuts: list[int], sizes: tuple[int, int]
) -> None:
    check_twins(peer, cut(sent, cuts), sizes)


@many
@given(peers, st.binary(max_size=80), places, limits)
def test_any_bytes(peer: Peer, sent: bytes, cuts: list[int], sizes: tuple[int, int]) -> None:
    check_twins(peer, cut(sent, cuts), sizes)


# --- messages

messages = st.tuples(field, field, maybe_field, block, blob)


@given(messages, messages)
def test_a_message_is_told_compared_copied_and_pickled_as_in_python(
    one: tuple[bytes, ...], two: tuple[bytes, ...]
) -> None:
    lazy, plain = compiled.MsgFrame(*one), frames.MsgFrame(*one)
    assert fields(lazy) == fields(plain) == one
    assert repr(lazy) == repr(plain)
    assert (lazy == compiled.MsgFrame(*two)) == (one == two)
    assert lazy != plain
    assert copy.copy(lazy) == pickle.loads(pickle.dumps(lazy)) == lazy
    with pytest.raises(TypeError, match="unhashable"):
        hash(lazy)


def chunk(count: int, size: int = 100) -> bytes:
    return b"".join(
        b"MSG a.%d 1 $JS.ACK.S.C.1.%d.%d.5.0 %d\r\n%b\r\n" % (n, n, n, size, bytes(size))
        for n in range(count)
    )


def test_few_messages_do_not_keep_a_chunk_in_memory() -> None:
    data = chunk(100)
    alone = sys.getrefcount(data)
    kept = compiled.Parser().feed(data)
    assert sys.getrefcount(data) > alone
    del kept[5:50]
    del kept[14:]
    assert sys.getrefcount(data) > alone  # More than an eighth of it is in use.
    del kept[9:]
    assert sys.getrefcount(data) == alone
    assert [frame.subject for frame in kept] == [b"a.%d" % number for number in (*range(5), *range(50, 54))]
    assert all(frame.data == bytes(100) for frame in kept)


def test_one_small_message_in_a_long_read_keeps_only_itself() -> None:
    data = b"PING\r\n" * 1000 + chunk(1)
    alone = sys.getrefcount(data)
    *_, message = compiled.Parser().feed(data)
    assert sys.getrefcount(data) == alone
    assert (message.subject, message.data) == (b"a.0", bytes(100))


@given(st.permutations(range(40)), st.integers(0, 40))
def test_messages_can_be_let_go_in_any_order(order: list[int], left: int) -> None:
    kept = dict(enumerate(compiled.Parser().feed(chunk(40, size=3))))
    for number in order[left:]:
        del kept[number]
    assert {number: frame.subject for number, frame in kept.items()} == {
        number: b"a.%d" % number for number in order[:left]
    }


def test_a_large_payload_is_cut_out_once() -> None:
    [small, large] = compiled.Parser().feed(chunk(1, 4095) + chunk(1, 4096))
    assert large.data is large.data
    assert small.data == small.data == bytes(4095)


# --- writing


@given(
    field,
    maybe_field,
    block,
    st.binary(max_size=20) | st.sampled_from([bytes(4095), bytes(4096), bytes(99_999)]),
)
def test_messages_are_written_as_in_python(subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
    assert compiled.pub(subject, reply, data) == encode.pub(subject, reply, data)
    assert compiled.hpub(subject, reply, header, data) == encode.hpub(subject, reply, header, data)


@given(field, field, st.integers(0, 2**63 - 1) | st.sampled_from([9, 10, 99, 100]), block, block, blob)
def test_numbered_messages_are_written_as_in_python(  # noqa: PLR0917 - hypothesis passes them in order
    subject: bytes, reply: bytes, number: int, start: bytes, end: bytes, data: bytes
) -> None:
    arguments = (subject, reply, number, start, end, data)
    assert compiled.hpub_numbered(*arguments) == encode.hpub_numbered(*arguments)


@given(
    st.integers(0, 60),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b.c", "\u00fc", "a b", "", "*", 7]),
            st.sampled_from([b"", b"hello", bytes(11), bytearray(1)]),
        ),
        max_size=8,
    ),
)
def test_messages_are_queued_as_in_python(room: int, messages: list[tuple[Any, Any]]) -> None:
    def queued(made: Any) -> Any:
        made.room = room
        steps: list[Any] = []
        for subject, data in messages:
            try:
                steps.append(made.publish(subject, data, 10))
            except UsageError as error:
                steps.append(str(error))
        return steps, made.frames, made.size, made.published

    assert queued(compiled.FrameQueue()) == queued(queue.FrameQueue())


def test_more_subjects_than_are_cached_are_published_alike() -> None:
    full = compiled.FrameQueue()
    full.room = 1 << 20
    for number in range(2 * queue.MAX_SUBJECTS + 1):
        full.publish(f"a.{number}", b"", 0)
        full.publish("a.0", b"", 0)
    assert full.published == len(full.frames) == 4 * queue.MAX_SUBJECTS + 2
    assert full.frames[-2:] == [b"PUB a.%d 0\r\n\r\n" % (2 * queue.MAX_SUBJECTS), b"PUB a.0 0\r\n\r\n"]


@for_each("reply", [b"", b"a", b"$JS.ACK", b"$JS.ACK.", b"$JS.ACK.S.c.1.2.3.4.5", b"$js.ack.S.c"])
@for_each("room", [0, 18, 19, 1000])
def test_an_acknowledgement_is_queued_as_in_python(reply: bytes, room: int) -> None:
    def queued(made: Any, kind: Any) -> object:
        made.room = room
        sizes = [made.ack(kind(b"1", b"s", reply, b"", b"data")) for _ in range(2)]
        return sizes, made.frames, made.size, made.published, made.acked

    found = queued(compiled.FrameQueue(), compiled.MsgFrame)
    assert found == queued(queue.FrameQueue(), frames.MsgFrame)
    if reply == b"$JS.ACK.S.c.1.2.3.4.5" and room == 1000:
        assert found == ([35, 70], [b"PUB " + reply + b" 4\r\n+ACK\r\n"] * 2, 70, 0, 2)


# --- many at once


@given(
    st.lists(messages, max_size=8),
    st.sampled_from([b"", b"$JS.ACK.", b"a"]),
    st.sampled_from([b"+ACK", b"-NAK"]),
)
def test_many_messages_are_asked_as_in_python(
    listed: list[tuple[bytes, ...]], prefix: bytes, kind: bytes
) -> None:
    lazy: Any = [compiled.MsgFrame(*each) for each in listed]
    plain: Any = [frames.MsgFrame(*each) for each in listed]
    assert compiled.total_size(lazy) == bulk.total_size(plain) == sum(frame.size for frame in plain)
    assert [frame.size for frame in lazy] == [frame.size for frame in plain]
    assert compiled.replies_start_with(lazy, prefix) == bulk.replies_start_with(plain, prefix)
    assert compiled.acks(lazy, kind) == bulk.acks(plain, kind)


reply_parts = st.lists(
    st.sampled_from([b"$JS", b"ACK", b"S", b"C", b"1", b"12345678901234567890", b"/", b"", b"x"]),
    max_size=13,
).map(b".".join)
replies = st.one_of(
    reply_parts,
    st.tuples(
        st.sampled_from(
            [b"$JS.ACK.S.C", b"$JS.ACK.d.h.S.C", b"$JS.ACK.S.C.S.C", b"$JS.ACK.S.D", b"$JS.ACK.S"]
        ),
        st.lists(st.sampled_from([b"1", b"0", b"98765", b"1" * 40]), min_size=4, max_size=8),
    ).map(lambda parts: b".".join([parts[0], *parts[1]])),
)


@many
@given(st.lists(replies, max_size=3), st.sampled_from([b"", b"S.C", b"S.CC", b"1.1"]))
def test_acknowledgement_subjects_are_recognised_as_in_python(listed: list[bytes], names: bytes) -> None:
    lazy: Any = [compiled.MsgFrame(b"1", b"a", reply, b"", b"") for reply in listed]
    plain: Any = [frames.MsgFrame(b"1", b"a", reply, b"", b"") for reply in listed]
    assert compiled.redeliveries(lazy, names) == bulk.redeliveries(plain, names)
    assert compiled.acks(lazy, b"+ACK") == bulk.acks(plain, b"+ACK")
    for reply, frame in zip(listed, plain, strict=True):
        try:
            metadata = parse_metadata(reply)
        except NotJetStreamMessage:
            assert bulk.redeliveries([frame], names) == -1
        else:
            again = metadata.num_delivered != 1
            assert bulk.redeliveries([frame], b"") == again
            assert bulk.redeliveries([frame], f"{metadata.stream}.{metadata.consumer}".encode()) == again


ack_parts = st.sampled_from(
    [
        b'{"stream":"S","seq":1}',
        b'{"stream":"S", "domain":"hub", "seq":123456789012345678}',
        b'{"stream":"',
        b'S"',
        b'"',
        b",",
        b" ",
        b'"domain":"',
        b'"seq":',
        b"0",
        b"7",
        b"123456789",
        b"}",
        b"\\",
        b"\xff",
        b"\n",
        b',"duplicate": true}',
        b'{"error":{"code":400},"stream":"S","seq":0}',
    ]
)
answers = st.tuples(
    st.sampled_from([b"_INBOX.x.", b"_INBOX.x", b""]),
    st.sampled_from([b"1", b"007", b"", b"x", b"-1", b"+1", b" 1", b"1" * 18, b"1" * 19, b"0"]),
    st.sampled_from([b"", b"", b"NATS/1.0 503\r\n\r\n"]),
    st.lists(ack_parts, min_size=1, max_size=7).map(b"".join),
)


@many
@given(st.lists(answers, max_size=4))
def test_publish_acks_are_found_as_in_python(listed: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    each = [(b"1", prefix + token, b"", header, data) for prefix, token, header, data in listed]
    lazy: Any = [compiled.MsgFrame(*one) for one in each]
    plain: Any = [frames.MsgFrame(*one) for one in each]
    numbers = bulk.pub_acks(plain, 9)
    assert compiled.pub_acks(lazy, 9) == numbers
    for number, (_, subject, _, header, data) in zip(numbers, each, strict=True):
        if number:
            ack = parse_pub_ack(data)  # So that skipping it hides neither an error nor a duplicate.
            assert (number, header, ack.duplicate) == (int(subject[9:]), b"", False)


@pytest.mark.parametrize("between", [b"", b'"domain":"hub",', b' "domain":"hub", '])
def test_the_acks_of_a_server_are_plain(between: bytes) -> None:
    data = b'{"stream":"S",%b"seq":12}' % between
    assert compiled.pub_acks([compiled.MsgFrame(b"1", b"a.7", b"", b"", data)], 2) == [7]


def test_an_ack_that_names_no_stream_is_not_plain() -> None:
    data = b'{"stream":"","seq":12}'
    assert compiled.pub_acks([compiled.MsgFrame(b"1", b"a.7", b"", b"", data)], 2) == [0]
    assert bulk.pub_acks([frames.MsgFrame(b"1", b"a.7", b"", b"", data)], 2) == [0]


@given(st.lists(st.tuples(st.sampled_from([b"1", b"2", b"3", None]), st.integers(1, 3)), max_size=10))
def test_messages_are_grouped_by_subscription_as_in_python(runs: list[tuple[bytes | None, int]]) -> None:
    def made(kind: Any) -> list[Any]:
        return [
            frames.PING if sid is None else kind(bytes(sid), b"a", b"", b"", b"%d" % number)
            for sid, count in runs
            for number in range(count)
        ]

    lazy, plain = (
        compiled.by_subscription(made(compiled.MsgFrame)),
        bulk.by_subscription(made(frames.MsgFrame)),
    )
    assert [(sid, [fields(frame) for frame in group]) for sid, group in lazy] == [
        (sid, [fields(frame) for frame in group]) for sid, group in plain
    ]


def test_messages_are_grouped_in_order_and_never_across_other_frames() -> None:
    def message(sid: bytes, data: bytes) -> Any:
        return frames.MsgFrame(sid, b"a", b"", b"", data)

    a1, b1, a2, b2, a3 = (
        message(*each) for each in [(b"1", b"1"), (b"2", b"1"), (b"1", b"2"), (b"2", b"2"), (b"1", b"3")]
    )
    listed = [a1, b1, a2, frames.PING, frames.PONG, b2, a3]
    assert bulk.by_subscription(listed) == [
        (b"1", [a1, a2]),
        (b"2", [b1]),
        (None, [frames.PING, frames.PONG]),
        (b"2", [b2]),
        (b"1", [a3]),
    ]


# --- into Arrow

numbers = st.sampled_from([b"0", b"1", b"007", b"1769860800123456789", b"9223372036854775799"])
names = st.sampled_from([b"a", b"A", b"b", b"Nats-Msg-Id", b"\xc3\xbc", b""])
texts = st.sampled_from([b"", b"1", b" 2", b"x: y", b"\xc3\xbc", b"\xff", b"\r", b"a\nb"])
lines = st.builds(b"%b%b%b".__mod__, st.tuples(names, st.sampled_from([b": ", b":", b""]), texts))
malformed = [
    b"NATS/1.0\r\nA: 1",
    b"NATS/1.0\r\nA: 12\r\n",
    b"NATS/1.0\nA: 1\n\n",
    b"x\r\nA: 1\r\n\r\n",
    b"\r\n",
]
blocks = st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 100\r\nA: 1\r\n\r\n", *malformed]) | st.lists(
    lines, max_size=4
).map(lambda each: b"\r\n".join([b"NATS/1.0", *each]) + b"\r\n\r\n")
domains = st.sampled_from([(b"", b""), (b"_.ACC.", b".x"), (b"hub.ACC.", b".x.y")])
replies = st.builds(
    lambda domain, seq, time, last: b"$JS.ACK.%bS.C.1.%b.3.%b.%b%b" % (domain[0], seq, time, last, domain[1]),
    domains,
    numbers,
    numbers,
    numbers,
)
subjects = st.sampled_from([b"a", b"a.b", b"\xc3\xbc", b"\xff"])
stored = st.tuples(st.just(b"1"), subjects, replies, blocks, blob)


@many
@given(st.lists(stored, min_size=1, max_size=5), st.booleans())
def test_messages_become_the_same_rows_as_in_python(listed: list[tuple[bytes, ...]], headers: bool) -> None:
    lazy: Any = [compiled.MsgFrame(*each) for each in listed]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jetspark.arrow.arrow_columns", compiled.arrow_columns)
        batch = record_batch(lazy, "S", headers=headers)
        patch.setattr("jetspark.arrow.arrow_columns", bulk.arrow_columns)
        expected = record_batch(lazy, "S", headers=headers)
    batch.validate(full=True)
    assert batch.equals(expected)
    if headers:
        shown = [Headers.parse(each[3].decode("utf-8", "replace").encode()) for each in listed]
        assert batch.column("headers").to_pylist() == [list(each.multi_items()) for each in shown]


@many
@given(st.lists(stored, min_size=1, max_size=20), st.sampled_from(["a", "A", "Nats-Msg-Id", "x"]))
def test_a_header_becomes_the_same_column_as_in_python(listed: list[tuple[bytes, ...]], name: str) -> None:
    lazy: Any = [compiled.MsgFrame(*each) for each in listed]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jetspark.arrow.header_column", compiled.header_column)
        batch = with_headers_as_columns(record_batch(lazy, "S"), lazy, {"found": name})
        patch.setattr("jetspark.arrow.header_column", bulk.header_column)
        expected = with_headers_as_columns(record_batch(lazy, "S"), lazy, {"found": name})
    batch.validate(full=True)
    assert batch.equals(expected)


def test_usual_messages_take_the_short_way() -> None:
    usual = compiled.MsgFrame(
        b"1", b"a", b"$JS.ACK.S.C.1.2.3.4.5", b"NATS/1.0\r\nA: 1\r\nB: \xc3\xbc\r\n\r\n", b"x"
    )
    assert compiled.arrow_columns([usual], True) is not None
    assert compiled.arrow_columns([compiled.MsgFrame(b"1", b"a", b"", b"", b"x")], True) is None
