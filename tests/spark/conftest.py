"""Fixtures of the Spark tests: one session for all tests of a worker, and a quick way to fill streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from jetspark import blocking
from jetspark.server import Server
from tests.spark.cluster import SparkCluster
from tests.spark.support import SPARK_CONF, Bench

_TESTS = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before 4.2 pyspark itself does not close the socket of a `collect`. Ignore that."""
    for item in items:
        if item.path.is_relative_to(_TESTS / "spark") or item.path.is_relative_to(_TESTS / "logs/job"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores. Tasks are not tried again, so that what fails is seen."""
    builder = SparkSession.builder.master("local[2]").appName("tests")
    # Its tables are its own: other workers have tables of the same names.
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def bench(shared_server: Server) -> Iterator[Bench]:
    """Streams to be made and filled, on the shared server."""
    with blocking.connect(shared_server.url) as connection:
        yield Bench(shared_server.url, connection.jetstream(timeout=30))


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master, two workers and a Connect server. Tasks are tried again there, slow ones twice at once."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def remote(spark_cluster: SparkCluster) -> Iterator[ConnectSession]:
    """A Connect session on that cluster."""
    session = spark_cluster.session()
    yield session
    session.stop()
