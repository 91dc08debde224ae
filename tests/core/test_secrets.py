"""No error holds a password: not in its text, not in its repr, not in the errors that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jetspark
from jetspark import UsageError
from jetspark.core.servers import parse_servers
from jetspark.server import Server, User
from tests.support.cases import for_each
from tests.support.untyped import untyped

SECRET = "hunter2"
#: Valid in Python, and impossible in UTF-8: the error of an encoder holds the whole text.
BAD = f"{SECRET}\ud800"


def texts(error: BaseException | None) -> Iterator[str]:
    """Whatever a log or a report may show of an error."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        if isinstance(error, UnicodeError):
            yield repr(getattr(error, "object", ""))
        if error.__cause__ is not None and error.__context__ is not None:
            yield from texts(error.__cause__)
        error = error.__context__


def holds_secret(error: BaseException) -> bool:
    return any(SECRET in text for text in texts(error))


def test_the_search_finds_a_secret_in_the_context_of_an_error() -> None:
    def leak() -> None:
        try:
            BAD.encode()
        except UnicodeEncodeError:
            raise UsageError("text cannot be encoded") from None

    with pytest.raises(UsageError) as caught:
        leak()
    assert holds_secret(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"user": "me", "password": BAD},
        {"user": "me", "password": lambda: BAD},
        {"user": BAD, "password": "x"},
        {"token": BAD},
        {"token": lambda: BAD},
        {"nkey_seed": BAD},
        {"nkey_seed": f"SU{SECRET}"},
        {"user_jwt": lambda: BAD, "sign": lambda nonce: b"x"},
        {"password": [SECRET], "user": "me"},
        {"password": SECRET.encode(), "user": "me"},
        {"token": {SECRET: 1}},
    ],
)
async def test_an_error_about_credentials_does_not_hold_them(
    options: dict[str, Any], nkey_server: Server
) -> None:
    with pytest.raises(UsageError) as caught:
        await jetspark.connect(nkey_server.url, **options)
    assert not holds_secret(caught.value)


@pytest.fixture(scope="module")
def nkey_server() -> Iterator[Server]:
    """A server that sends a nonce, which signatures need."""
    with Server(nkeys=["UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"]) as running:
        yield running


@pytest.mark.parametrize("url", [f"nats://me:{BAD}@{{}}", f"nats://{BAD}@{{}}", f"nats://{BAD}:x@{{}}"])
async def test_an_error_about_a_url_does_not_hold_its_password(url: str, shared_server: Server) -> None:
    with pytest.raises(UsageError) as caught:
        await jetspark.connect(url.format(shared_server.url.removeprefix("nats://")))
    assert not holds_secret(caught.value)


@pytest.mark.parametrize("option", ["credentials_file", "nkey_seed_file"])
@pytest.mark.parametrize("content", [SECRET.encode(), SECRET.encode() + b"\xff"])
async def test_an_error_about_a_file_does_not_hold_its_content(
    option: str, content: bytes, tmp_path: Path, nkey_server: Server
) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=option) as caught:
        await jetspark.connect(nkey_server.url, **untyped({option: path}))
    assert not holds_secret(caught.value)


@given(
    start=st.sampled_from(["nats://me:", "tls://me:", "me:", "nats://[::1]:", "nats:me:", "nats://me:1"]),
    end=st.text(st.sampled_from("@:/[]?#%,.a1 \t\ud800"), max_size=8),
)
def test_no_text_after_a_password_makes_a_url_error_show_it(start: str, end: str) -> None:
    try:
        parse_servers(f"{start}{SECRET}{end}")
    except UsageError as raised:
        error = raised
    else:
        return
    assert not holds_secret(error)


def test_an_error_about_a_url_shows_its_host() -> None:
    for url, shown in (
        (f"nats://me:{SECRET}@[::1", "[::1"),
        ("nats://[::1", "nats://[::1"),
        (f"nats://me:{SECRET}@host:port", "host:..."),
        (f"nats://me:{SECRET}:4222", "nats://me:..."),
        ("http://host:80/path", "http://host:..."),
    ):
        with pytest.raises(UsageError) as caught:
            parse_servers(url)
        assert f"{shown!r} " in str(caught.value)


@for_each(
    "make",
    [
        lambda: Server(users=[User(user="me", password=BAD)]),
        lambda: Server(users=[User(user=BAD, password="x")]),
        lambda: Server(token=BAD),
        lambda: Server(token=untyped([SECRET])),
        lambda: Server(users=[User(user="me", password=untyped([SECRET]))]),
    ],
)
def test_an_error_about_the_options_of_a_server_does_not_hold_a_password(make: Callable[[], Server]) -> None:
    with pytest.raises(UsageError) as caught:
        make().start()
    assert not holds_secret(caught.value)
