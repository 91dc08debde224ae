"""Free ports: the kernel gives them to nobody, and no two processes pick the same one."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jetspark.server import Server, run
from jetspark.server.cluster import Cluster
from jetspark.server.ports import bind_free_port, free_ports, ports_outside
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def given_out() -> range:
    """The ports that the kernel gives to any program."""
    if sys.platform != "linux":
        pytest.skip("only Linux says which ports it gives out")
    first, last = map(int, _RANGE.read_text().split())
    if not ports_outside(first, last):
        pytest.skip("this machine gives out every port")
    return range(first, last + 1)


def ports_of(server: Server) -> list[int]:
    urls = server.url, server.monitor_url, server.websocket_url
    return [urlsplit(url).port or 0 for url in urls if url is not None]


async def test_the_kernel_gives_the_ports_of_servers_to_no_other_program() -> None:
    with run(monitor=True, websocket=True) as server:
        ports = ports_of(server)
    members = [each.options.cluster for each in Cluster().servers]
    ports += [member.port for member in members if member is not None]
    async with ScriptedServer() as scripted, TCPProxy(scripted.port) as proxy:
        ports += [scripted.port, proxy.port]
    assert len(set(ports)) == 8
    assert not set(ports).intersection(given_out())


@pytest.mark.parametrize(
    ("first", "last", "ports"),
    [
        (32_768, 60_999, range(20_000, 32_768)),
        (1024, 60_999, range(61_000, 65_536)),
        (1024, 9999, range(20_000, 65_536)),
        (1024, 65_535, range(0)),
    ],
)
def test_ports_are_below_or_above_those_that_are_given_out(first: int, last: int, ports: range) -> None:
    assert ports_outside(first, last) == ports


def test_a_free_port_is_bound_once_though_others_may_listen_on_it() -> None:
    candidates = free_ports(1)
    with (
        bind_free_port(candidates) as first,
        bind_free_port(candidates) as second,
        bind_free_port([]) as third,
    ):
        ports = [each.getsockname()[1] for each in (first, second, third)]
        assert len(set(ports)) == 3, "the kernel chooses when there is no other port"
        with socket.create_server(("127.0.0.1", ports[0])) as listening:
            with socket.create_connection(listening.getsockname()):
                pass
            with bind_free_port([ports[0]]) as fourth:
                assert fourth.getsockname()[1] != ports[0]
