"""Fixtures of the pipeline's tests: those of Spark, and jobs from a few lines of TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
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
def one_spark(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Spark serves all commands: the sessions that they start are that of the test."""
    from jetspark.logs.job import session as sessions

    monkeypatch.setattr(sessions, "start_session", lambda config, log, trial=False: session)
    monkeypatch.setattr(sessions, "stop_session", lambda spark: None)
    monkeypatch.setattr(PySparkLogger.getLogger("SQLQueryContextLogger"), "disabled", True)


@pytest.fixture
def pipes(session: SparkSession, bench: Bench, tmp_path: Path) -> Pipes:
    """Makes and runs jobs."""
    return Pipes(session, bench, tmp_path)
