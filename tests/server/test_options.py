"""Options that are refused, and the text of the configuration file. Starts no server."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import jetspark.server
from jetspark.errors import UsageError
from jetspark.server import TLS, Cluster, Options, Server, User, config
from jetspark.server.options import OptionNames
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

ANN = User(user="ann", password="a")
KEY = "U" + "A" * 55


BAD_OPTIONS: list[tuple[str, object, dict[str, Any]]] = [
    ("port", -1, {}),
    ("port", 65536, {}),
    ("name", "with space", {}),
    ("name", "", {}),
    ("domain", "a.b", {}),
    ("domain", "d", {"jetstream": False}),
    ("store_dir", "/nowhere", {"jetstream": False}),
    ("sync_interval", 0, {}),
    ("sync_interval", "sometimes", {}),
    ("sync_interval", "always", {"jetstream": False}),
    ("max_payload", 0, {}),
    ("ready_timeout", 0, {}),
    ("token", "", {}),
    ("token", "t", {"users": [ANN]}),
    ("users", [ANN, ANN], {}),
    ("users", ["ann"], {}),
    ("nkeys", KEY, {}),
    ("nkeys", ["SUA" + "A" * 53], {}),
    ("colour", "red", {}),
]


BAD_USERS: list[dict[str, Any]] = [
    {"user": "", "password": "p"},
    {"user": "u", "password": ""},
    {"user": "u", "password": "p", "publish_allow": "orders"},
    {"user": "u", "password": "p", "subscribe_allow": []},
    {"user": "u", "password": "p", "account": "two words"},
]


def test_bad_options_and_users_are_refused_by_name(golden: Golden) -> None:
    told = Refusals()
    for option, value, others in BAD_OPTIONS:
        given: Any = {option: value, **others}
        with told.refusal(given, names=option):
            Server(**given)
    told.section("Users")
    for bad in BAD_USERS:
        with told.refusal(bad, names="users"):
            User(**bad)
    golden("errors-server", told.text())


def test_bad_certificates_are_refused(tmp_path: Path) -> None:
    here = tmp_path / "there.pem"
    here.touch()
    with pytest.raises(UsageError, match="key_file"):
        TLS(cert_file=here, key_file=tmp_path / "missing.pem")
    with pytest.raises(UsageError, match="ca_file"):
        TLS(cert_file=here, key_file=here, verify=True)


def test_a_seed_given_for_a_public_key_is_not_repeated_in_the_error() -> None:
    with pytest.raises(UsageError) as caught:
        Server(nkeys=["SUAHUSHHUSH"])
    assert "HUSH" not in str(caught.value)


def test_a_cluster_of_one_and_a_cluster_on_one_port_are_refused() -> None:
    with pytest.raises(UsageError, match="n must be"):
        Cluster(1)
    with pytest.raises(UsageError, match="port"):
        Cluster(3, port=4222)


def test_the_names_for_signatures_are_the_fields_of_the_options() -> None:
    assert set(OptionNames.__annotations__) == {field.name for field in fields(Options)}


def test_everything_exported_is_there() -> None:
    assert all(hasattr(jetspark.server, name) for name in jetspark.server.__all__)


def render(options: Options) -> str:
    return config.render(
        options, name="n", port=0, monitor_port=0, websocket_port=0, ports_dir="/p", store_dir="/s"
    )


def test_the_configuration_binds_loopback_and_lets_the_server_pick_the_port() -> None:
    text = render(Options())
    assert 'host: "127.0.0.1"' in text
    assert "port: -1" in text
    assert "http" not in text


def test_users_are_grouped_by_account_and_lists_are_quoted() -> None:
    bob = User(user="bob", password="b", account="B", publish_allow=["a.>", "b"], subscribe_deny=["*"])
    text = render(Options(users=[ANN, bob]))
    assert '{ user: "ann", password: "a" }' in text
    assert 'publish: { allow: ["a.>", "b"] }, subscribe: { deny: ["*"] }' in text
    assert '"B" {\n    jetstream: enabled' in text


@for_each(
    ("text", "quoted"),
    [("plain", '"plain"'), ('a"b\\c', '"a\\"b\\\\c"'), ("a\nb\x7f", '"a\\x0Ab\\x7F"'), ("$x é", '"$x é"')],
)
def test_strings_are_quoted_as_the_servers_lexer_reads_them(text: str, quoted: str) -> None:
    assert config.quote(text) == quoted
