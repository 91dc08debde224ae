"""WebSocket without a socket: any split of the input, and everything a server must not send."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import AuthorizationError, RemoteProtocolError
from jetspark.wire.websocket import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    Control,
    Decoder,
    encode_frame,
    read_answer,
    upgrade_request,
)
from tests.support.cases import for_each

KEY = bytes(range(16))


def server_frame(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    """A frame as a server sends it: without a mask."""
    head = bytes([opcode | (0x80 if final else 0)])
    if len(data) < 126:
        head += bytes([len(data)])
    elif len(data) < 1 << 16:
        head += b"\x7e" + len(data).to_bytes(2, "big")
    else:
        head += b"\x7f" + len(data).to_bytes(8, "big")
    return head + data


def unmasked(frame: bytes) -> tuple[int, bytes]:
    """Opcode and payload of a client's frame, read byte by byte."""
    assert frame[0] & 0x80
    assert frame[1] & 0x80
    size, at = frame[1] & 0x7F, 2
    if size > 125:
        width = 2 if size == 126 else 8
        size, at = int.from_bytes(frame[2 : 2 + width], "big"), 2 + width
    mask, data = frame[at : at + 4], frame[at + 4 :]
    assert len(data) == size
    return frame[0] & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_frames_are_masked_as_the_standard_says(data: bytes, mask: bytes) -> None:
    assert unmasked(encode_frame(BINARY, data, mask)) == (BINARY, data)


@for_each("size", [0, 1, 125, 126, 127, 65535, 65536, 70001])
def test_frames_of_each_width_of_length(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert unmasked(encode_frame(BINARY, data, b"\x01\x02\x03\xff")) == (BINARY, data)
    assert Decoder().feed(server_frame(BINARY, data)) == (data, [])


def feed_in_pieces(stream: bytes, cuts: list[int]) -> tuple[bytes, list[Control]]:
    decoder = Decoder()
    payload, controls, begin = b"", [], 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        more, found = decoder.feed(stream[begin:end])
        payload += more
        controls += found
        begin = end
    return payload, controls


@given(
    st.lists(st.one_of(st.binary(max_size=400), st.lists(st.binary(max_size=20), min_size=1)), max_size=5),
    st.lists(st.integers(0, 2000)),
)
def test_any_split_gives_the_same_payload(messages: list[bytes | list[bytes]], cuts: list[int]) -> None:
    stream, expected = b"", b""
    for message in messages:
        parts = [message] if isinstance(message, bytes) else message
        for index, part in enumerate(parts):
            stream += server_frame(0 if index else BINARY, part, final=index == len(parts) - 1)
            stream += server_frame(PING, b"?")
            expected += part
    pings = [Control(PING, b"?")] * stream.count(server_frame(PING, b"?"))
    payload, controls = feed_in_pieces(stream, cuts)
    assert payload == expected
    assert len(controls) <= len(pings)
    assert feed_in_pieces(stream, list(range(len(stream)))) == (payload, controls)


def test_control_frames_come_with_their_payload() -> None:
    stream = server_frame(PONG, b"") + server_frame(CLOSE, b"\x03\xe8bye")
    assert Decoder().feed(stream) == (b"", [Control(PONG, b""), Control(CLOSE, b"\x03\xe8bye")])


@for_each(
    "bad",
    [
        b"\x82\x80\x00\x00\x00\x00",  # masked
        b"\xc2\x00",  # compressed
        b"\x81\x00",  # text
        b"\x80\x00",  # a continuation of nothing
        b"\x83\x00",  # reserved
        b"\x8b\x00",  # a reserved control frame
        b"\x09\x00",  # a control frame in parts
        b"\x89\x7e\x00\x7e",  # a long control frame
        b"\x02\x00\x82\x00",  # a message inside another
    ],
)
def test_what_a_server_must_not_send_is_refused(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="WebSocket"):
        Decoder().feed(bad)
    with pytest.raises(RemoteProtocolError, match="WebSocket"):
        feed_in_pieces(bad, list(range(len(bad))))


def test_a_frame_that_claims_an_absurd_length_needs_no_memory() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x82\x7f" + b"\xff" * 8 + b"abc") == (b"abc", [])
    assert decoder.feed(b"d" * 1000) == (b"d" * 1000, [])


# --- the upgrade


def answer(key: bytes = KEY, **changes: str) -> bytes:
    accept = hashlib.sha1(base64.b64encode(key) + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    fields = {"Upgrade": "WebSocket", "Connection": "keep-alive, Upgrade"}
    fields["Sec-WebSocket-Accept"] = base64.b64encode(accept).decode()
    fields |= {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value]
    return "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode()


def test_the_request_and_its_answer() -> None:
    request = upgrade_request("host:1", "/nats?a=b", KEY, [("Authorization", "Bearer ü")]).decode()
    assert request.startswith("GET /nats?a=b HTTP/1.1\r\nHost: host:1\r\n")
    assert "\r\nAuthorization: Bearer ü\r\n" in request
    assert request.endswith("\r\n\r\n")
    whole = answer()
    assert read_answer(whole + b"\x82\x00", KEY) == len(whole)
    for cut in range(len(whole)):
        assert read_answer(whole[:cut], KEY) is None


@for_each(
    "bad",
    [
        b'INFO {"server_id": "x"}\r\n',
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: ws://other\r\n\r\n",
        b"HTTP/1.1 1" + b"0" * 70_000,
        answer(Upgrade="h2c"),
        answer(Connection=""),
        answer(Sec_WebSocket_Accept="wrong"),
        answer(Sec_WebSocket_Extensions="permessage-deflate"),
    ],
)
def test_an_answer_that_is_no_upgrade_is_refused(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="WebSocket"):
        read_answer(bad, KEY)


def test_a_refusal_is_an_authorization_error() -> None:
    with pytest.raises(AuthorizationError, match="401"):
        read_answer(b"HTTP/1.1 401 Unauthorized\r\n\r\n", KEY)
