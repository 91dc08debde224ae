"""Fixtures of the pipeline's tests: those of Spark, and jobs from a few lines of TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark.logs.job.session import SQL_CONF
from tests.logs.job.support import Pipes
from tests.spark.conftest import bench, pytest_collection_modifyitems, spark
from tests.spark.support import Bench

__all__ = ["bench", "pytest_collection_modifyitems", "spark"]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session that behaves as that of a job."""
    own = spark.newSession()
    for key, value in SQL_CONF.items():
        own.conf.set(key, value)
    return own


@pytest.fixture
def pipes(session: SparkSession, bench: Bench, tmp_path: Path) -> Pipes:
    """Makes and runs jobs."""
    return Pipes(session, bench, tmp_path)
