"""Authentication: each kind, good and bad, with the real server; read anew at each connect; never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jetspark import AuthorizationError, Connection, Error, Event, State, UsageError, connect
from jetspark.server import Server, User
from tests.support.jwt import Identity, Operator, UserCredentials, new_identity
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import Watch

PASSWORD = "hunter2 @:/?#%ü"
TOKEN = "t0ken/hunter2"


async def who_am_i(nc: Connection) -> str:
    """The user that the server takes this connection for."""
    answer = await nc.request("$SYS.REQ.USER.INFO")
    return str(json.loads(answer.data)["data"]["user"])


def shows(error: BaseException, secret: str) -> bool:
    """Whether a secret is in what a user may see of an error."""
    texts = [str(error), repr(error), "".join(traceback.format_exception(error))]
    return any(secret in text for text in texts)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


# --- user and password


@pytest.fixture(scope="module")
def password_server() -> Iterator[Server]:
    users = [User(user="m@e", password=PASSWORD), User(user="other", password="another")]
    with Server(jetstream=False, users=users) as server:
        yield server


async def test_user_and_password_are_accepted(password_server: Server) -> None:
    async with connect(password_server.url, user="m@e", password=PASSWORD) as nc:
        assert await who_am_i(nc) == "m@e"


async def test_user_and_password_may_be_functions(password_server: Server) -> None:
    async with connect(password_server.url, user=lambda: "m@e", password=lambda: PASSWORD) as nc:
        assert await who_am_i(nc) == "m@e"


async def test_user_and_password_may_be_in_the_url(password_server: Server) -> None:
    url = f"nats://{quote('m@e', safe='')}:{quote(PASSWORD, safe='')}@127.0.0.1:{password_server.port}"
    async with connect(url) as nc:
        assert await who_am_i(nc) == "m@e"


async def test_options_win_over_the_url(password_server: Server) -> None:
    url = f"nats://other:wrong@127.0.0.1:{password_server.port}"
    async with connect(url, user="m@e", password=PASSWORD) as nc:
        assert await who_am_i(nc) == "m@e"


@pytest.mark.parametrize(
    "options", [{}, {"user": "m@e"}, {"user": "m@e", "password": "wr0ng"}, {"token": "wr0ng"}]
)
async def test_wrong_credentials_are_refused_with_a_hint(
    password_server: Server, options: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AuthorizationError, match="Authorization Violation") as caught:
        await connect(password_server.url, **options)
    assert caught.value.hint
    assert not shows(caught.value, "wr0ng")
    assert "wr0ng" not in log.text


async def test_a_wrong_password_in_the_url_is_not_shown(
    password_server: Server, log: pytest.LogCaptureFixture
) -> None:
    url = f"nats://other:wr0ng@127.0.0.1:{password_server.port}"
    with pytest.raises(AuthorizationError) as caught:
        await connect(url)
    assert not shows(caught.value, "wr0ng")
    assert "wr0ng" not in log.text


async def test_of_several_servers_the_refusal_is_what_is_raised(password_server: Server) -> None:
    async with ScriptedServer(greeting=b"HTTP/1.1 400\r\n") as strange:
        with pytest.raises(AuthorizationError):
            await connect([strange.url, password_server.url], user="m@e", password="wr0ng")


# --- token


@pytest.fixture(scope="module")
def token_server() -> Iterator[Server]:
    with Server(jetstream=False, token=TOKEN) as server:
        yield server


async def test_a_token_is_accepted(token_server: Server) -> None:
    async with connect(token_server.url, token=TOKEN) as nc:
        await nc.flush()
    async with connect(token_server.url, token=lambda: TOKEN) as nc:
        await nc.flush()
    async with connect(f"nats://{quote(TOKEN, safe='')}@127.0.0.1:{token_server.port}") as nc:
        await nc.flush()


async def test_a_wrong_token_is_refused(token_server: Server, log: pytest.LogCaptureFixture) -> None:
    for url, token in (
        (token_server.url, "wr0ng"),
        (f"nats://wr0ng@127.0.0.1:{token_server.port}", None),
    ):
        with pytest.raises(AuthorizationError) as caught:
            await connect(url, token=token)
        assert not shows(caught.value, "wr0ng")
    assert "wr0ng" not in log.text


# --- nkeys


@pytest.fixture(scope="module")
def keys() -> list[Identity]:
    return [new_identity(), new_identity()]


@pytest.fixture(scope="module")
def nkey_server(keys: list[Identity]) -> Iterator[Server]:
    with Server(jetstream=False, nkeys=[key.public_key for key in keys]) as server:
        yield server


async def test_an_nkey_seed_is_accepted(nkey_server: Server, keys: list[Identity], tmp_path: Path) -> None:
    seed = keys[0].seed
    file = tmp_path / "user.nk"
    file.write_text(f"{seed}\n")
    for options in (
        {"nkey_seed": seed},
        {"nkey_seed": lambda: seed},
        {"nkey_seed_file": file},
        {"nkey_seed_file": str(file)},
    ):
        async with connect(nkey_server.url, **options) as nc:
            assert await who_am_i(nc) == keys[0].public_key


async def test_a_seed_that_the_server_does_not_know_is_refused(
    nkey_server: Server, log: pytest.LogCaptureFixture
) -> None:
    stranger = new_identity()
    with pytest.raises(AuthorizationError) as caught:
        await connect(nkey_server.url, nkey_seed=stranger.seed)
    assert not shows(caught.value, stranger.seed)
    assert stranger.seed not in log.text


@pytest.mark.parametrize("broken", ["", "SUA", "not a seed at all", "wr0ng" * 20, "ü"])
async def test_a_seed_that_is_none_is_a_usage_error_that_does_not_show_it(
    nkey_server: Server, tmp_path: Path, broken: str
) -> None:
    with pytest.raises(UsageError, match="nkey_seed") as caught:
        await connect(nkey_server.url, nkey_seed=broken)
    assert not broken or not shows(caught.value, repr(broken))
    file = tmp_path / "user.nk"
    file.write_text(broken)
    with pytest.raises(UsageError, match="nkey_seed_file"):
        await connect(nkey_server.url, nkey_seed_file=file)


async def test_a_public_key_in_place_of_a_seed_is_a_usage_error(
    nkey_server: Server, keys: list[Identity]
) -> None:
    with pytest.raises(UsageError, match="nkey_seed"):
        await connect(nkey_server.url, nkey_seed=keys[0].public_key)


async def test_a_server_that_sends_no_nonce_is_told_apart(
    password_server: Server, keys: list[Identity]
) -> None:
    with pytest.raises(AuthorizationError, match="nonce"):
        await connect(password_server.url, nkey_seed=keys[0].seed)


# --- JWT and .creds


@pytest.fixture(scope="module")
def operator() -> Operator:
    return Operator()


@pytest.fixture(scope="module")
def jwt_server(operator: Operator) -> Iterator[Server]:
    with Server(jetstream=False, config=operator.config) as server:
        yield server


async def test_a_credentials_file_is_accepted(jwt_server: Server, operator: Operator, tmp_path: Path) -> None:
    user = operator.user()
    file = user.write(tmp_path / "user.creds")
    for path in (file, str(file)):
        async with connect(jwt_server.url, credentials_file=path) as nc:
            assert await who_am_i(nc) == user.identity.public_key


async def test_credentials_may_be_text_bytes_or_a_function(
    jwt_server: Server, operator: Operator, tmp_path: Path
) -> None:
    user = operator.user()
    text = user.write(tmp_path / "me.creds").read_text()
    for credentials in (text, text.encode() + b"\xff", lambda: text, text.encode):
        async with connect(jwt_server.url, credentials=credentials) as nc:
            assert await who_am_i(nc) == user.identity.public_key


@pytest.mark.parametrize("bad", ["", b"\xff", "SU-hunter2", lambda: None, lambda: 5])
async def test_credentials_that_are_none_are_a_usage_error_that_does_not_show_them(
    jwt_server: Server, bad: Any
) -> None:
    with pytest.raises(UsageError, match="credentials") as caught:
        await connect(jwt_server.url, credentials=bad)
    assert not shows(caught.value, "hunter2")


async def test_a_jwt_and_a_function_that_signs_are_accepted(jwt_server: Server, operator: Operator) -> None:
    user = operator.user()
    async with connect(jwt_server.url, user_jwt=lambda: user.jwt, sign=user.identity.sign) as nc:
        assert await who_am_i(nc) == user.identity.public_key


async def test_the_function_that_signs_may_be_a_coroutine(jwt_server: Server, operator: Operator) -> None:
    user = operator.user()

    async def sign(nonce: bytes) -> bytes:
        await asyncio.sleep(0)
        return user.identity.sign(nonce)

    async with connect(jwt_server.url, user_jwt=lambda: user.jwt, sign=sign) as nc:
        assert await who_am_i(nc) == user.identity.public_key


@pytest.mark.parametrize("kind", ["expired", "signed by a stranger", "seed of another"])
async def test_bad_credentials_are_refused(
    jwt_server: Server, operator: Operator, tmp_path: Path, log: pytest.LogCaptureFixture, kind: str
) -> None:
    match kind:
        case "expired":
            user = operator.user(expires=time.time() - 60)
        case "signed by a stranger":
            user = Operator().user()
        case _:
            user = UserCredentials(new_identity(), operator.user().jwt)
    file = user.write(tmp_path / "user.creds")
    with pytest.raises(AuthorizationError) as caught:
        await connect(jwt_server.url, credentials_file=file)
    assert caught.value.hint
    for secret in (user.jwt, user.identity.seed):
        assert not shows(caught.value, secret)
        assert secret not in log.text


@pytest.mark.parametrize("text", ["", "nothing of the kind", "-----BEGIN NATS USER JWT-----\nabc\n"])
async def test_a_file_that_is_no_credentials_file_is_a_usage_error(
    jwt_server: Server, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "user.creds"
    file.write_text(text)
    with pytest.raises(UsageError, match="credentials_file") as caught:
        await connect(jwt_server.url, credentials_file=file)
    assert caught.value.hint


async def test_a_seed_that_is_broken_in_a_credentials_file_is_not_shown(
    jwt_server: Server, operator: Operator, tmp_path: Path
) -> None:
    user = operator.user()
    broken = user.identity.seed[:-4]
    file = UserCredentials(Identity("", broken), user.jwt).write(tmp_path / "user.creds")
    with pytest.raises(UsageError, match="credentials_file") as caught:
        await connect(jwt_server.url, credentials_file=file)
    assert not shows(caught.value, broken)


@pytest.mark.parametrize("option", ["credentials_file", "nkey_seed_file"])
async def test_a_file_that_cannot_be_read_is_a_usage_error(
    jwt_server: Server, tmp_path: Path, option: str
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing", tmp_path, binary):
        with pytest.raises(UsageError, match=option):
            await connect(jwt_server.url, **untyped({option: path}))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"user": lambda: None}, "user"),
        ({"user": "u", "password": lambda: 5}, "password"),
        ({"token": lambda: b"bytes"}, "token"),
        ({"nkey_seed": lambda: None}, "nkey_seed"),
        ({"user_jwt": lambda: "jwt", "sign": lambda _: "text"}, "sign"),
        ({"user_jwt": lambda: None, "sign": lambda nonce: nonce}, "user_jwt"),
    ],
)
async def test_functions_that_return_nonsense_are_named(
    jwt_server: Server, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=rf"\b{named}\b"):
        await connect(jwt_server.url, **options)


# --- at each connect anew


async def reconnect(proxy: TCPProxy, watch: Watch, times: int = 1) -> None:
    proxy.cut()
    await watch.until(Event.RECONNECTED, times=times)


async def test_a_rotated_credentials_file_is_used_at_the_next_connect(
    jwt_server: Server, operator: Operator, tmp_path: Path, watch: Watch
) -> None:
    first, second = operator.user(), operator.user()
    file = first.write(tmp_path / "user.creds")
    async with (
        TCPProxy(jwt_server.port) as proxy,
        connect(proxy.url, credentials_file=file, **watch.listeners) as nc,
    ):
        assert await who_am_i(nc) == first.identity.public_key
        second.write(file)
        await reconnect(proxy, watch)
        assert await who_am_i(nc) == second.identity.public_key


async def test_a_rotated_seed_file_is_used_at_the_next_connect(
    nkey_server: Server, keys: list[Identity], tmp_path: Path, watch: Watch
) -> None:
    file = tmp_path / "user.nk"
    file.write_text(keys[0].seed)
    async with (
        TCPProxy(nkey_server.port) as proxy,
        connect(proxy.url, nkey_seed_file=file, **watch.listeners) as nc,
    ):
        assert await who_am_i(nc) == keys[0].public_key
        file.write_text(keys[1].seed)
        await reconnect(proxy, watch)
        assert await who_am_i(nc) == keys[1].public_key


async def test_functions_are_called_at_each_connect(password_server: Server, watch: Watch) -> None:
    users = iter([("m@e", PASSWORD), ("other", "another"), ("m@e", PASSWORD)])
    current = [("", "")]

    def user() -> str:
        current[0] = next(users)
        return current[0][0]

    async with (
        TCPProxy(password_server.port) as proxy,
        connect(proxy.url, user=user, password=lambda: current[0][1], **watch.listeners) as nc,
    ):
        assert await who_am_i(nc) == "m@e"
        await reconnect(proxy, watch)
        assert await who_am_i(nc) == "other"
        await reconnect(proxy, watch, times=2)
        assert await who_am_i(nc) == "m@e"


async def test_a_function_that_fails_once_does_not_end_the_reconnecting(
    token_server: Server, watch: Watch
) -> None:
    calls = 0

    def token() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise LookupError("the vault is closed for a moment")
        return TOKEN

    async with (
        TCPProxy(token_server.port) as proxy,
        connect(proxy.url, token=token, **watch.listeners) as nc,
    ):
        await reconnect(proxy, watch)
        assert isinstance(watch.last(Event.ERROR), LookupError)
        assert calls == 3
        await nc.flush()


async def test_credentials_that_are_refused_twice_at_reconnecting_close_the_connection(
    jwt_server: Server, operator: Operator, tmp_path: Path, watch: Watch, log: pytest.LogCaptureFixture
) -> None:
    file = operator.user().write(tmp_path / "user.creds")
    async with (
        TCPProxy(jwt_server.port) as proxy,
        connect(proxy.url, credentials_file=file, reconnect_wait=0.01, **watch.listeners) as nc,
    ):
        stranger = Operator().user()
        stranger.write(file)
        proxy.cut()
        error = await watch.until(Event.CLOSED)
        assert isinstance(error, AuthorizationError)
        assert nc.state is State.CLOSED
        with pytest.raises(Error):
            nc.publish("subject")
        assert nc.last_error is error
        for secret in (stranger.jwt, stranger.identity.seed):
            assert secret not in log.text
            assert not shows(error, secret)


async def test_nothing_is_sent_to_a_server_that_the_credentials_are_not_ready_for() -> None:
    async with ScriptedServer() as server:
        with pytest.raises(AuthorizationError, match="nonce"):
            await connect(server.url, nkey_seed=new_identity().seed)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""
