"""The options: one table of them, every bad value refused by name."""

from __future__ import annotations

import dataclasses
import inspect
import re
import ssl
import typing
from itertools import product
from typing import Any

import pytest

from jetspark import UsageError, client, connect
from jetspark.core.options import ConnectOptions
from jetspark.jetstream.publish.one import publish
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals
from tests.support.untyped import untyped

SECONDS = [
    "connect_timeout",
    "request_timeout",
    "reconnect_wait",
    "max_reconnect_wait",
    "ping_interval",
    "drain_timeout",
]
NAN = float("nan")


@for_each("option", SECONDS)
def test_durations_may_be_whole_or_fractions(option: str) -> None:
    ConnectOptions(**untyped({option: 1}))
    ConnectOptions(**untyped({option: 0.001}))


BAD_VALUES: list[tuple[str, Any]] = [
    ("max_outstanding_pings", 0),
    ("max_outstanding_pings", 1.5),
    ("max_outstanding_pings", "2"),
    ("pending_size", -1),
    ("pending_size", 1.5),
    ("pending_size", None),
    ("max_reconnect_attempts", -2),
    ("max_reconnect_attempts", 0.5),
    ("inbox_prefix", ""),
    ("inbox_prefix", "has space"),
    ("inbox_prefix", "wild.*"),
    ("inbox_prefix", "wild.>"),
    ("inbox_prefix", "line\r\nbreak"),
    ("inbox_prefix", "dot."),
    ("inbox_prefix", None),
    ("name", "line\r\nbreak"),
    ("name", "nul\0"),
    ("name", None),
    ("name", 5),
    ("user", 5),
    ("token", b"bytes"),
    ("nkey_seed", b"SUA"),
    ("nkey_seed_file", 5),
    ("credentials_file", True),
    ("credentials", 5),
    ("proxy", 5),
    ("proxy", "host:1080"),
    ("proxy", "ftp://host"),
    ("proxy", "socks5://"),
    ("proxy", "http://host/path"),
    ("dialer", "host"),
    ("websocket_headers", "Authorization: x"),
    ("websocket_headers", {"Authorization": "x\r\nInjected: y"}),
    ("websocket_headers", {"Bad Name": "x"}),
    ("websocket_headers", {"Host": "x"}),
    ("websocket_headers", {"Sec-WebSocket-Extensions": "permessage-deflate"}),
    ("jetstream_domain", 5),
    ("reconnect_delay", 1.0),
    ("retry_on_failed_connect", "yes"),
    ("tls", "yes"),
    ("tls", 1),
    ("tls_hostname", 5),
    ("no_echo", "no"),
    ("shuffle_servers", None),
    ("discover_servers", 1),
    ("tls_handshake_first", "yes"),
    ("on_error", "print"),
    ("on_closed", 5),
]


@for_each(("option", "value"), BAD_VALUES)
def test_bad_values_are_refused_by_name_before_anything_is_awaited(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"\b{option}\b"):
        connect("nats://host", **{option: value})


def sign(nonce: bytes) -> bytes:
    return nonce


def jwt() -> str:
    return "jwt"


CONTRADICTIONS: list[dict[str, Any]] = [
    {"user": "u", "token": "t"},
    {"nkey_seed": "s", "nkey_seed_file": "f"},
    {"credentials_file": "c", "user": "u"},
    {"credentials": "c", "token": "t"},
    {"user_jwt": jwt, "sign": sign, "token": "t"},
    {"proxy": "socks5://p", "dialer": print},
    {"jetstream_domain": "d", "jetstream_api_prefix": "p"},
    {"password": "p"},
    {"password": "p", "token": "t"},
    {"user_jwt": jwt},
    {"sign": sign},
    {"tls": False, "tls_ca_file": "ca"},
    {"tls": False, "tls_handshake_first": True},
    {"tls": ssl.create_default_context(), "tls_ca_file": "ca"},
    {"tls_key_file": "key"},
]


def test_what_connect_refuses(golden: Golden) -> None:
    told = Refusals()
    told.section("Bad values")
    for option, value in BAD_VALUES:
        with told.refusal({option: value}, names=option):
            ConnectOptions(**{option: value})
    told.section("Durations")
    for option, value in product(SECONDS, untyped([0, -1, NAN, "5", None, True, b"1"])):
        with told.refusal({option: value}, names=option):
            ConnectOptions(**{option: value})
    told.section("Options that contradict each other")
    for options in CONTRADICTIONS:
        with told.refusal(options):
            ConnectOptions(**options)
    golden("errors-connect", told.text())


def test_refused_secrets_are_not_shown() -> None:
    for options in (
        {"user": "hunter2", "token": "hunter2"},
        {"password": "hunter2"},
        {"token": b"hunter2"},
        {"nkey_seed": b"hunter2"},
        {"proxy": "socks4://me:hunter2@host"},
        {"proxy": "socks5://me:hun/ter2hunter2@host"},
        {"websocket_headers": {"X": "hunter2\n"}},
    ):
        with pytest.raises(UsageError) as caught:
            ConnectOptions(**options)
        assert "hunter2" not in str(caught.value)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="conect_timeout"):
        connect("nats://host", **untyped({"conect_timeout": 1}))


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        untyped(ConnectOptions()).name = "other"


# --- connect() is the reference


def parameters() -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(connect).parameters)
    assert list(found)[:2] == ["servers", "context"]
    del found["servers"], found["context"]
    return found


def test_connect_takes_exactly_the_options_in_their_order_with_their_defaults() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(ConnectOptions)}
    assert {name: each.default for name, each in parameters().items()} == fields
    assert list(parameters()) == list(fields)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters().values())


def test_connect_and_the_options_agree_on_the_types() -> None:
    mine = typing.get_type_hints(connect, globalns=vars(client))
    theirs = typing.get_type_hints(ConnectOptions)
    for name in parameters():
        assert mine[name] == theirs[name], name


def test_connect_documents_every_option_and_nothing_else() -> None:
    document = inspect.getdoc(connect) or ""
    arguments = document.partition("Args:\n")[2].partition("\nRaises")[0]
    documented = [
        name
        for line in re.findall(r"^    ([a-z][a-z_, \n]*?):(?: |$)", arguments, flags=re.MULTILINE)
        for name in re.split(r",\s*", line)
    ]
    assert documented == ["servers", "context", *parameters()]


def test_connect_hands_every_option_on() -> None:
    values: dict[str, Any] = {"name": "n", "no_echo": True, "ping_interval": 7.0, "token": "t", "tls": True}
    connecting = connect("nats://host", **values)
    for name, value in values.items():
        assert getattr(connecting._options, name) == value


def test_a_dead_connection_is_found_before_publishing_gives_up() -> None:
    options = ConnectOptions()
    found_after = options.ping_interval * (options.max_outstanding_pings + 1)
    assert found_after < inspect.signature(publish).parameters["retry_for"].default
