"""Fixtures for all tests: real servers, a proxy in front of one, certificates."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from jetspark.server import Cluster, Server
from tests.support.certs import Certs, make_certs
from tests.support.effort import THOROUGH
from tests.support.golden import golden, writing
from tests.support.interrupts import accept_interrupts
from tests.support.order import shared_out
from tests.support.proxy import TCPProxy
from tests.support.quick_spark import quicken

__all__ = ["golden"]  # a fixture

pytest_plugins = ["jetspark.server.fixtures"]

# A loaded machine is slow: no test may fail because of the time that it took. `make test` tries the same
# examples every time; with THOROUGH=1 they are new ones.
settings.register_profile(
    "jetspark", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not THOROUGH
)
settings.load_profile("jetspark")

accept_interrupts()
quicken()


#: Fixtures for `make test-faults` alone: elections take as long as they like, and mounting needs root.
_FAULTS = {"nats_cluster", "spark_cluster", "small_disk"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests with those fixtures, and share the selected tests well among the workers.

    `make golden` runs the tests of golden files alone.
    """
    for item in items:
        if not _FAULTS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.faults)
    yield  # Here `-m` selects.
    if writing():
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    items[:] = shared_out(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Exempt all tests and modules from later collections of garbage: many tests collect to find leaks."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


if os.environ.get("UVLOOP"):

    def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """`make test-uvloop`: all tests on that loop."""
        import uvloop

        return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def server(nats_server: Server) -> Server:
    """A server of the test's own, with JetStream and an empty store."""
    return nats_server


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """One server for all tests of a worker; for those that do it no harm and pick names of their own."""
    with Server(websocket=True) as running:
        yield running


@pytest.fixture
def cluster(nats_cluster: Cluster) -> Cluster:
    """Three servers, shared by the tests of a module and all running when a test begins."""
    for member in nats_cluster.servers:
        if member.running:
            member.resume()
    if not all(member.running for member in nats_cluster.servers):
        nats_cluster.start()
    return nats_cluster


@pytest_asyncio.fixture
async def proxy(server: Server) -> AsyncIterator[TCPProxy]:
    """A proxy in front of `server`."""
    async with TCPProxy(server.port) as running:
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    directory = tmp_path / "small"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], check=True, timeout=30)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True, timeout=30)


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return make_certs(tmp_path_factory.mktemp("certs"))
