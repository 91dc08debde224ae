"""Contexts of the `nats` CLI and variables of the environment, as arguments of `connect`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetspark import UsageError, blocking, client, connect, from_env
from jetspark.core.contexts import Context, load, names, selected
from jetspark.server import Server, User
from tests.core.test_secrets import holds_secret
from tests.support.cases import for_each
from tests.support.jwt import Operator
from tests.support.proxies import SocksProxy


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of settings, and an environment without any."""
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "nats" / "context").mkdir(parents=True)
    return tmp_path / "config"


def write_context(config: Path, name: str, **fields: object) -> None:
    path = config / "nats" / "context" / f"{name}.json"
    path.write_text(json.dumps({"description": "", "color_scheme": "x", **fields}))


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    with Server(users=[User(user="me", password="hunter2")], domain="hub") as server:
        yield server


def options(connecting: client.Connecting) -> Any:
    return connecting._options


# --- contexts


async def test_a_context_says_where_and_as_whom_to_connect(config: Path, guarded: Server) -> None:
    write_context(config, "prod", url=guarded.url, user="me", password="hunter2", jetstream_domain="hub")
    async with connect(context="prod", name="mine") as nc:
        assert nc.connected_url == guarded.url
        assert (await nc.jetstream().account_info()).domain == "hub"
    with blocking.connect(context="prod") as nc:
        nc.flush()


def test_arguments_win_over_the_context(config: Path) -> None:
    write_context(
        config,
        "prod",
        url="nats://context",
        user="me",
        password="hunter2",
        inbox_prefix="_C",
        tls_first=True,
        ca="~/ca.pem",
        socks_proxy="socks5://proxy",
    )
    taken = connect(context="prod")
    assert taken._servers[0].host == "context"
    assert (options(taken).inbox_prefix, options(taken).tls_handshake_first) == ("_C", True)
    assert options(taken).tls_ca_file == Path.home() / "ca.pem"
    assert options(taken).proxy == "socks5://proxy"
    given = connect("nats://argument", context="prod", inbox_prefix="_A", token="t")
    assert given._servers[0].host == "argument"
    assert (options(given).inbox_prefix, options(given).token) == ("_A", "t")
    assert options(given).user is None
    assert options(given).password is None


async def test_a_context_may_name_a_proxy(config: Path, shared_server: Server) -> None:
    async with SocksProxy(connect_to=shared_server.port) as proxy:
        write_context(config, "far", url="nats://far.away", socks_proxy=proxy.url)
        async with connect(context="far") as nc:
            await nc.flush()
        assert proxy.asked == [("far.away", 4222)]


async def test_contexts_with_jwt_seed_and_nsc(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator()
    user = operator.user()
    creds = user.write(tmp_path / "user.creds")
    nsc = tmp_path / "bin" / "nsc"
    nsc.parent.mkdir()
    monkeypatch.setenv("PATH", f"{nsc.parent}{os.pathsep}{os.environ['PATH']}")
    with Server(jetstream=False, config=operator.config) as server:
        profile = json.dumps({"user_creds": str(creds), "operator": {"service": [server.url]}})
        nsc.write_text(f"#!/bin/sh\n[ \"$*\" = 'generate profile O/A/U' ] && echo '{profile}'\n")
        nsc.chmod(0o700)
        write_context(config, "jwt", url=server.url, user_jwt=user.jwt, user_seed=user.identity.seed)
        monkeypatch.setenv("MY_SEED", user.identity.seed)
        write_context(config, "env", url=server.url, user_jwt=user.jwt, user_seed="env://MY_SEED")
        write_context(config, "creds", url=server.url, creds=f"file://{creds}")
        write_context(config, "nsc", nsc="nsc://O/A/U")
        write_context(config, "nsc-creds", url=server.url, creds="nsc://O/A/U")
        for name in ("jwt", "env", "creds", "nsc", "nsc-creds"):
            async with connect(context=name) as nc:
                await nc.flush()
        nsc.write_text("#!/bin/sh\necho hunter2; echo no such user >&2; exit 1\n")
        with pytest.raises(UsageError, match="no such user") as caught:
            connect(context="nsc")
        assert not holds_secret(caught.value)
        nsc.write_text("#!/bin/sh\necho hunter2\n")
        with pytest.raises(UsageError, match="did not print a profile") as caught:
            connect(context="nsc")
        assert not holds_secret(caught.value)


def test_a_bearer_jwt_needs_no_seed(config: Path) -> None:
    write_context(config, "bearer", user_jwt="the.jwt")
    taken = options(connect(context="bearer"))
    assert (taken.user_jwt(), taken.sign(b"nonce")) == ("the.jwt", b"")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"password": "env://NOT_SET", "user": "me"}, "NOT_SET"),
        ({"token": "op://vault/item"}, "op://"),
        ({"creds": "op://vault/item"}, "op://"),
        ({"ca": "data://x"}, "data://"),
        ({"nsc": "nsc://O/A/U"}, "`nsc` is not on the PATH"),
        ({"socks_proxy": "socks4://me:hunter2@host"}, "proxy"),
        ({"url": "http://me:hunter2@host"}, "servers"),
    ],
)
def test_what_a_context_cannot_have_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], complaint: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    write_context(config, "bad", **fields)
    with pytest.raises(UsageError, match=complaint) as caught:
        connect(context="bad")
    assert not holds_secret(caught.value)


@for_each("name", ["", "none", "../x", "a/b", "nul\0", ".hidden", 5, "\ud800"])
def test_a_context_that_does_not_exist_is_a_usage_error(name: Any) -> None:
    with pytest.raises(UsageError, match="context"):
        connect(context=name)


def test_contexts_can_be_listed_and_one_is_selected(config: Path) -> None:
    assert (names(), selected()) == ([], None)
    write_context(config, "b")
    write_context(config, "a", url="nats://a")
    (config / "nats" / "context.txt").write_text("a\n")
    assert (names(), selected()) == (["a", "b"], "a")
    assert load("a").connect_options() == {"servers": "nats://a"}
    assert Context().connect_options() == {}


# --- the environment


async def test_from_env_connects_as_the_variables_say(
    config: Path, guarded: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", guarded.url)
    monkeypatch.setenv("NATS_USER", "me")
    monkeypatch.setenv("NATS_PASSWORD", "hunter2")
    monkeypatch.setenv("NATS_JS_DOMAIN", "hub")
    async with from_env(name="mine") as nc:
        assert nc.options.name == "mine"
        assert (await nc.jetstream().account_info()).domain == "hub"
    with blocking.from_env() as nc:
        nc.flush()


def test_arguments_win_over_variables_and_those_over_the_context(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert from_env()._servers == connect()._servers
    write_context(config, "prod", url="nats://context", user="me", password="x", inbox_prefix="_C")
    monkeypatch.setenv("NATS_CONTEXT", "prod")
    assert from_env()._servers[0].host == "context"
    assert options(from_env()).user == "me"
    monkeypatch.setenv("NATS_URL", "nats://variable")
    monkeypatch.setenv("NATS_CREDS", "$HOME/me.creds")
    taken = from_env()
    assert taken._servers[0].host == "variable"
    assert options(taken).credentials_file == Path(os.environ["HOME"]) / "me.creds"
    assert (options(taken).user, options(taken).inbox_prefix) == (None, "_C")
    given = from_env("nats://argument", token="t")
    assert given._servers[0].host == "argument"
    assert (options(given).token, options(given).credentials_file) == ("t", None)
    write_context(config, "other", url="nats://other")
    monkeypatch.delenv("NATS_URL")
    assert from_env(context="other")._servers[0].host == "other"


def test_from_env_takes_what_connect_takes() -> None:
    assert inspect.signature(from_env) == inspect.signature(connect)
