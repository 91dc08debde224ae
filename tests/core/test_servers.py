"""Server URLs and the pool: pure, so tried with whatever hypothesis thinks of."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import UsageError
from jetspark.core.servers import MAX_DISCOVERED, PoolServer, ServerPool, parse_servers
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

# --- URLs


@for_each(
    ("url", "expected"),
    [
        ("nats://host:1234", ("host", 1234, False, None, None)),
        ("nats://host", ("host", 4222, False, None, None)),
        ("nats://host/", ("host", 4222, False, None, None)),
        ("host", ("host", 4222, False, None, None)),
        ("host:1234", ("host", 1234, False, None, None)),
        ("  host:1234  ", ("host", 1234, False, None, None)),
        ("127.0.0.1", ("127.0.0.1", 4222, False, None, None)),
        ("tls://host", ("host", 4222, True, None, None)),
        ("ws://host", ("host", 80, False, None, None)),
        ("wss://host", ("host", 443, True, None, None)),
        ("ws://me:pw@host:1/path?a=b", ("host", 1, False, "me", "pw")),
        ("TLS://HOST:1", ("host", 1, True, None, None)),
        ("nats://[::1]:1234", ("::1", 1234, False, None, None)),
        ("[::1]", ("::1", 4222, False, None, None)),
        ("tls://[fe80::1]", ("fe80::1", 4222, True, None, None)),
        ("nats://token@host", ("host", 4222, False, "token", None)),
        ("nats://me:pw@host", ("host", 4222, False, "me", "pw")),
        ("nats://me:@host", ("host", 4222, False, "me", "")),
        ("me:pw@host:1", ("host", 1, False, "me", "pw")),
        ("nats://m%40e:p%3Aw%2F%25@host", ("host", 4222, False, "m@e", "p:w/%")),
        ("nats://me:p%C3%BC@[::1]:1", ("::1", 1, False, "me", "pü")),
        ("nats://bücher.example", ("bücher.example", 4222, False, None, None)),
    ],
)
def test_urls_are_understood(url: str, expected: tuple[object, ...]) -> None:
    (server,) = parse_servers(url)
    assert (server.host, server.port, server.tls, server.user, server.password) == expected
    assert server.tls_name == server.host


BAD_URLS: list[Any] = [
    "",
    " ",
    "nats://",
    "nats://:4222",
    "http://host",
    "nats//host",
    "nats://host:port",
    "nats://host:0",
    "nats://host:-1",
    "nats://host:65536",
    "nats://host:1:2",
    "nats://[::1",
    "nats://host/path",
    "ws://host/päth",
    "ws://host/a b",
    "ws://host#x",
    "nats://host?tls=1",
    "nats://host#here",
    "nats://ho st",
    "nats://ho\r\nst",
    "nats://host\x00",
    "nats://a..b",
    f"nats://{'a' * 64}.example",
    "host,",
    ",",
    [],
    ["host", ""],
    [None],
    [b"host"],
    b"host",
    None,
    5,
]


def test_bad_urls_are_refused(golden: Golden) -> None:
    told = Refusals()
    for bad in BAD_URLS:
        with told.refusal({"servers": bad}, names="servers"):
            parse_servers(bad)
    golden("errors-servers", told.text())


@for_each(
    "bad",
    [
        "http://me:hunter2@host",
        "nats://me:hunter2@host:port",
        "nats://me:hunter2@host/path",
        "nats://me:hunter2@",
        "nats://me:hun/ter2@host",
        "nats://me:hun?hunter2@host:port",
        "nats://me:a@hunter2@host/path",
        "nats://hunter2@host:99999",
        "nats://me:hunter2@ho st",
        "nats://me:hunter2,more@host",  # a comma is between servers, so this is two bad ones
        "nats://me:hunter2",
    ],
)
def test_errors_about_urls_show_no_password(bad: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_servers(bad)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_url_or_a_usage_error(text: str) -> None:
    try:
        servers = parse_servers(text)
    except UsageError:
        return
    for server in servers:
        assert server.host
        assert 0 < server.port < 65536
        assert parse_servers(server.url)[0].address == server.address


@given(user=st.text(min_size=1), password=st.text())
def test_any_user_and_password_can_be_written_in_a_url(user: str, password: str) -> None:
    from urllib.parse import quote

    try:
        url = f"nats://{quote(user, safe='')}:{quote(password, safe='')}@host"
    except UnicodeEncodeError:
        return  # lone surrogates
    (server,) = parse_servers(url)
    assert (server.user, server.password) == (user, password)


def test_several_servers_can_be_given() -> None:
    expected = ["nats://a:4222", "tls://b:1"]
    assert [server.url for server in parse_servers("a,tls://b:1")] == expected
    assert [server.url for server in parse_servers(" a , tls://b:1 ")] == expected
    assert [server.url for server in parse_servers(("a", "tls://b:1"))] == expected
    assert [server.url for server in parse_servers(url for url in ["a", "tls://b:1"])] == expected


def test_the_url_of_a_server_has_no_user_info() -> None:
    (server,) = parse_servers("tls://me:pw@[::1]:1234")
    assert server.url == "tls://[::1]:1234"


# --- the pool


def pool_of(*urls: str, wait: float = 0.1, max_wait: float = 2.0, max_attempts: int = -1) -> ServerPool:
    return ServerPool(parse_servers(urls), wait=wait, max_wait=max_wait, max_attempts=max_attempts)


def take(pool: ServerPool, now: float = 0.0, jitter: float = 0.0) -> tuple[PoolServer, float]:
    choice = pool.next(now, jitter)
    assert choice is not None
    return choice


def test_servers_are_tried_in_turn() -> None:
    pool = pool_of("a", "b", "c")
    assert [take(pool)[0].host for _ in range(7)] == list("abcabca")


def test_a_server_that_was_not_tried_yet_needs_no_wait() -> None:
    pool = pool_of("a", "b")
    assert take(pool, now=0.0, jitter=0.99)[1] == 0.0


def test_the_server_in_use_is_tried_last() -> None:
    pool = pool_of("a", "b", "c")
    server, _ = take(pool)
    take(pool)
    pool.succeeded(server)
    assert [take(pool)[0].host for _ in range(3)] == ["c", "b", "a"]


@given(
    failures=st.integers(0, 1000),
    jitter=st.floats(0, 1, exclude_max=True),
    wait=st.floats(0.001, 10),
    max_wait=st.floats(0.001, 60),
)
def test_waits_stay_between_half_and_all_of_what_the_failures_ask_for(
    failures: int, jitter: float, wait: float, max_wait: float
) -> None:
    pool = pool_of("a", wait=wait, max_wait=max_wait)
    (server,) = pool
    server.failures, server.last_attempt = failures, 100.0
    _, delay = take(pool, now=100.0, jitter=jitter)
    full = min(wait * 2.0 ** min(failures, 32), max_wait)
    assert full / 2 - 1e-9 <= delay <= full + 1e-9
    _, later = take(pool, now=100.0 + delay / 2, jitter=jitter)
    assert later == pytest.approx(delay / 2, abs=1e-9)
    assert take(pool, now=100.0 + full + 1, jitter=jitter)[1] == 0.0


def test_waits_double_with_every_failure() -> None:
    pool = pool_of("a", wait=1.0, max_wait=6.0)
    (server,) = pool
    waits = []
    for _ in range(5):
        server.last_attempt = 0.0
        waits.append(take(pool)[1])
        pool.failed(server)
    assert waits == [0.5, 1.0, 2.0, 3.0, 3.0]
    pool.succeeded(server)
    server.last_attempt = 0.0
    assert take(pool)[1] == 0.5


def test_jitter_spreads_the_waits() -> None:
    pool = pool_of("a", wait=1.0)
    (server,) = pool
    server.last_attempt = 0.0
    assert [take(pool, jitter=jitter)[1] for jitter in (0.0, 0.5, 0.9)] == [0.5, 0.75, 0.95]


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_server_is_given_up_after_so_many_failures_in_a_row(attempts: int) -> None:
    pool = pool_of("a", "b", max_attempts=attempts)
    a, b = pool
    for _ in range(attempts - 1):
        pool.failed(a)
    pool.succeeded(a)
    for _ in range(attempts - 1):
        pool.failed(a)
    assert len(pool) == 2
    pool.failed(a)
    assert list(pool) == [b]
    pool.failed(a)
    for _ in range(attempts):
        pool.failed(b)
    assert pool.next(0.0, 0.0) is None
    assert len(pool) == 0


def test_by_default_no_server_is_given_up() -> None:
    pool = pool_of("a")
    (server,) = pool
    for _ in range(10_000):
        pool.failed(server)
    assert take(pool)[0] is server


def test_shuffling_keeps_all_servers() -> None:
    names = [f"server{number}" for number in range(50)]
    pool = pool_of(*names)
    pool.shuffle(random.random)
    assert sorted(server.host for server in pool) == sorted(names)


# --- discovery


def test_discovered_servers_inherit_from_the_one_that_told() -> None:
    pool = pool_of("tls://me:pw@nats.example:4222")
    (current,) = pool
    assert pool.discover(["10.0.0.1:4222", "10.0.0.2:4333"], current) == ["10.0.0.1:4222", "10.0.0.2:4333"]
    for server in (server for server in pool if server is not current):
        assert server.discovered
        assert (server.user, server.password, server.tls) == ("me", "pw", True)
        assert server.tls_name == "nats.example"


def test_discovered_servers_are_checked_by_their_own_name_when_an_address_was_given() -> None:
    pool = pool_of("tls://10.0.0.1")
    (current,) = pool
    pool.discover(["10.0.0.2:4222"], current)
    (found,) = (server for server in pool if server is not current)
    assert found.tls_name == "10.0.0.2"


def test_known_servers_are_not_discovered_again() -> None:
    pool = pool_of("10.0.0.1:4222", "10.0.0.2:4222")
    current = next(iter(pool))
    assert pool.discover(["10.0.0.1:4222", "10.0.0.2:4222", "10.0.0.3:4222"], current) == ["10.0.0.3:4222"]
    assert pool.discover(["10.0.0.1:4222", "10.0.0.2:4222", "10.0.0.3:4222"], current) == []
    assert len(pool) == 3


def test_discovered_servers_that_are_no_longer_listed_go() -> None:
    pool = pool_of("given:4222")
    (current,) = pool
    pool.discover(["10.0.0.1:4222", "10.0.0.2:4222"], current)
    pool.discover(["10.0.0.2:4222"], current)
    assert {server.address for server in pool} == {"given:4222", "10.0.0.2:4222"}


def test_the_server_in_use_and_those_that_were_given_stay() -> None:
    pool = pool_of("given:4222")
    pool.discover(["10.0.0.1:4222"], next(iter(pool)))
    current = next(server for server in pool if server.discovered)
    pool.discover(["10.0.0.9:4222"], current)
    assert {server.address for server in pool} == {"given:4222", "10.0.0.1:4222", "10.0.0.9:4222"}


def test_discovered_servers_are_tried_before_the_one_in_use() -> None:
    pool = pool_of("a")
    (current,) = pool
    pool.succeeded(current)
    pool.discover(["b:1", "c:1"], current)
    assert {take(pool)[0].host, take(pool)[0].host} == {"b", "c"}
    assert take(pool)[0] is current


def test_no_more_servers_are_discovered_than_the_limit() -> None:
    pool = pool_of("a")
    (current,) = pool
    many = [f"10.0.{number // 256}.{number % 256}:4222" for number in range(10_000)]
    assert pool.discover(many, current) == many[:MAX_DISCOVERED]
    assert pool.discover(many[1:], current) == [many[MAX_DISCOVERED]]
    assert len(pool) == 1 + MAX_DISCOVERED


@for_each("address", ["", "a b:1", "host:port", "http://x", "nats://x:1/path", "\x00"])
def test_addresses_that_make_no_sense_are_passed_over(address: str) -> None:
    pool = pool_of("a")
    (current,) = pool
    assert pool.discover([address, "b:1"], current) == ["b:1"]


@given(
    st.lists(
        st.lists(st.sampled_from([f"10.0.0.{n}:4222" for n in range(6)]), max_size=8), min_size=1, max_size=6
    )
)
def test_after_discovery_the_pool_is_what_was_given_and_what_is_listed(listings: list[list[str]]) -> None:
    pool = pool_of("given:4222")
    (current,) = pool
    for listed in listings:
        before = {server.address for server in pool}
        fresh = pool.discover(listed, current)
        assert {server.address for server in pool} == {"given:4222", *listed}
        assert set(fresh) == set(listed) - before
        assert len(fresh) == len(set(fresh))
        assert len(pool) == len({server.address for server in pool})
