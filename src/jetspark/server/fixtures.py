"""pytest fixtures: a fresh server for each test, a cluster for each module.

Enable them in a conftest.py with

    pytest_plugins = ["jetspark.server.fixtures"]

and override `nats_server_options` or `nats_cluster_options` to change what they start. This is the only
module here that imports pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jetspark.server.cluster import Cluster
from jetspark.server.options import OptionNames
from jetspark.server.process import Server

__all__ = ["nats_cluster", "nats_cluster_options", "nats_server", "nats_server_options"]


@pytest.fixture
def nats_server_options() -> OptionNames:
    """The keywords for `nats_server`. Override it to change them."""
    return {}


@pytest.fixture
def nats_server(nats_server_options: OptionNames) -> Iterator[Server]:
    """A running server for one test, with JetStream and an empty store."""
    with Server(**nats_server_options) as server:
        yield server


@pytest.fixture(scope="module")
def nats_cluster_options() -> OptionNames:
    """The keywords for `nats_cluster`. Override it, with scope `module`, to change them."""
    return {}


@pytest.fixture(scope="module")
def nats_cluster(nats_cluster_options: OptionNames) -> Iterator[Cluster]:
    """A running cluster of three, shared by the tests of a module."""
    with Cluster(3, **nats_cluster_options) as cluster:
        yield cluster
