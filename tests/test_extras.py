"""Without an extra: what needs it names it, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.extras import SPARK, without

EXAMPLES = Path(__file__).parents[1] / "examples" / "pipeline"


def run(env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def no_spark(tmp_path: Path) -> dict[str, str]:
    return without(tmp_path / "site", *SPARK)


def test_a_configuration_is_checked_and_explained_without_spark(no_spark: dict[str, str]) -> None:
    for verb, first in (("check", " is valid: "), ("explain", "Name: ")):
        ended = run(no_spark, "-m", "jetspark", "pipeline", verb, EXAMPLES / "access_to_parquet.toml")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert first in ended.stdout.splitlines()[0]


@pytest.mark.parametrize("verb", [("run",), ("explain", "--plan"), ("try",)], ids=lambda verb: verb[0])
def test_what_needs_spark_names_the_extra(no_spark: dict[str, str], verb: tuple[str, ...]) -> None:
    ended = run(no_spark, "-m", "jetspark", "pipeline", *verb, EXAMPLES / "access_to_parquet.toml")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "jetspark: the job needs pyspark. Install it with `pip install 'jetspark[spark]'`\n"
    )


@pytest.mark.parametrize(
    ("statement", "needs"),
    [
        ("import jetspark.arrow", "jetspark.arrow needs pyarrow"),
        ("from jetspark.spark import JetStreamDataSource", "jetspark.spark needs pyspark"),
        ("import jetspark.spark; jetspark.spark.JetStreamDataSource", "jetspark.spark needs pyspark"),
    ],
)
def test_an_import_names_the_extra(no_spark: dict[str, str], statement: str, needs: str) -> None:
    ended = run(no_spark, "-c", statement)
    assert ended.stderr.splitlines()[-1] == (
        f"jetspark.errors.MissingExtra: {needs}. Install it with `pip install 'jetspark[spark]'`"
    )
    assert run(no_spark, "-c", f"try:\n    {statement}\nexcept ImportError:\n    pass").returncode == 0


def test_traces_name_their_extra(tmp_path: Path) -> None:
    ended = run(without(tmp_path / "site", "opentelemetry"), "-c", "import jetspark.otel")
    assert ended.stderr.splitlines()[-1] == (
        "jetspark.errors.MissingExtra: jetspark.otel needs opentelemetry-api. "
        "Install it with `pip install 'jetspark[otel]'`"
    )


def test_a_job_says_that_java_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("a line\n")
    arguments = (
        "-m",
        "jetspark",
        "pipeline",
        "try",
        EXAMPLES / "access_to_parquet.toml",
        tmp_path / "access.log",
    )
    home = os.environ.get("JAVA_HOME")
    if home is None:
        ended = run({"PATH": str(tmp_path)}, *arguments)
        assert ended.stderr.startswith(
            "jetspark: Spark needs Java, which is not installed. Install Java 17 to 23"
        )
    ended = run({"JAVA_HOME": str(tmp_path)}, *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        f"jetspark: JAVA_HOME is {tmp_path}, without bin/java. Install Java 17 to 23"
    )


@pytest.mark.parametrize("module", ["nicegui", "prometheus_client"])
def test_the_console_names_its_extra(tmp_path: Path, module: str) -> None:
    ended = run(without(tmp_path / "site", module), "-m", "jetspark", "console")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"jetspark: the console needs {module}. Install it with `pip install 'jetspark[console]'`\n"
    )
