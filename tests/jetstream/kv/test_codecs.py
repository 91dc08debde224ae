"""Codecs: any text is a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import Base64Keys, EscapedKeys, KeyCodec, PathKeys, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.kv.names import check_key
from tests.jetstream.kv.conftest import Make
from tests.support.cases import for_each

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(TEXT)
def test_any_text_is_a_key_when_it_is_escaped(key: str) -> None:
    stored = EscapedKeys().encode(key)
    assert check_key(stored) == stored
    assert EscapedKeys().decode(stored) == key


@given(TEXT.filter(lambda key: all(key.split("."))))
def test_text_without_empty_parts_is_a_key_in_base64(key: str) -> None:
    stored = Base64Keys().encode(key)
    assert check_key(stored) == stored
    assert Base64Keys().decode(stored) == key


@given(st.lists(st.text("abc-_=", min_size=1), min_size=1), st.booleans())
def test_a_path_is_a_key(parts: list[str], absolute: bool) -> None:
    path = "/" * absolute + "/".join(parts)
    stored = PathKeys().encode(path)
    assert check_key(stored) == stored
    if parts[0] != "_root_":
        assert PathKeys().decode(stored) == path


@for_each(
    ("codec", "key", "stored"),
    [
        (EscapedKeys(), "plain/key_1.x", "plain/key_1.x"),
        (EscapedKeys(), "my key.=é", "my=20key.=3D=C3=A9"),
        (EscapedKeys(), "a..*", "a.=.=2A"),
        (EscapedKeys(), "", "="),
        (Base64Keys(), "Acme Inc.contact", "QWNtZSBJbmM.Y29udGFjdA"),
        (PathKeys(), "/users/123", "_root_.users.123"),
        (PathKeys(), "users/123/", "users.123"),
        (PathKeys(), "/", "_root_"),
    ],
)
def test_keys_are_stored_as_documented(codec: KeyCodec, key: str, stored: str) -> None:
    assert codec.encode(key) == stored


@for_each("stored", ["=", "=4", "=zz", "a=", "=C3"])
def test_what_is_not_escaped_text_is_not_decoded(stored: str) -> None:
    if stored == "=":
        assert EscapedKeys().decode(stored) == ""
    else:
        with pytest.raises(ValueError):
            EscapedKeys().decode(stored)


@pytest.mark.parametrize("codec", [EscapedKeys(), Base64Keys()])
async def test_a_bucket_with_a_codec_takes_any_text(make: Make, js: JetStream, codec: KeyCodec) -> None:
    kv = await make(codec=codec)
    await kv.put_many({"größe.x y": b"1", "größe.*": b"2", "andere": b"3"})
    assert (await kv.get("größe.x y")).key == "größe.x y"
    assert [key async for key in kv.keys("größe.*")] == ["größe.x y", "größe.*"]
    assert {entry.key async for entry in kv.get_many(["größe.*", "nichts"])} == {"größe.*"}
    assert [entry.key for entry in await kv.history("andere")] == ["andere"]
    async with kv.cache() as cache:
        assert cache["größe.*"].value == b"2"


async def test_a_key_that_another_program_stored_without_the_codec_is_shown_as_it_is(
    make: Make, js: JetStream
) -> None:
    kv = await make(codec=Base64Keys())
    plain = await js.key_value(kv.bucket)
    await plain.put("no_base64=", b"1")
    assert [key async for key in kv.keys()] == ["no_base64="]
    with pytest.raises(UsageError, match="key"):
        await kv.put("a..b", b"")
