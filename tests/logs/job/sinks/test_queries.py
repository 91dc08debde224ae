"""The queries of the guide, run on what the examples write."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark import StreamConfig, blocking
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from jetspark.logs.job.preflight import check_server
from jetspark.logs.job.runner import Runner
from jetspark.server import Server
from tests.logs.job.support import access_line

ROOT = Path(__file__).parents[4]
#: Each page that says that DuckDB reads a table.
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md") if "DuckDB" in page.read_text())
EXAMPLES = ("access_to_parquet", "access_to_delta", "access_to_iceberg")


def queries(page: Path) -> list[str]:
    return [
        block
        for block in re.findall(r"```python\n(.+?)```", page.read_text(), re.DOTALL)
        if "import duckdb" in block
    ]


def test_every_page_that_promises_duckdb_shows_a_query() -> None:
    assert [page.name for page in PAGES] == ["pipeline.md"]
    assert len(queries(PAGES[0])) == 2
    assert PAGES[0].read_text().count("```python\n") == 2, "each program of the page is a query"


@pytest.mark.timeout(900)
def test_the_queries_of_the_guide_read_what_the_examples_write(
    session: SparkSession,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        for name, subject in (("LOGS", "logs.>"), ("DEAD", "dead.>")):
            js.create_stream(StreamConfig(name=name, subjects=[subject], allow_direct=True))
        with js.publisher() as publisher:
            for number in range(100):
                line = access_line("web1", number, minute=number // 10, status=200 if number % 4 else 503)
                publisher.send("logs.0.web1", line.encode())
    for name in EXAMPLES:
        file = Path(shutil.copy(ROOT / f"examples/pipeline/{name}.toml", tmp_path))
        config, where = read_config(file, servers=server.url)
        Runner(Job(session, config, where), lambda progress: None).run(check_server(config, where), once=True)
    monkeypatch.chdir(tmp_path)
    shown = []
    for query in queries(PAGES[0]):
        capsys.readouterr()
        exec(query, {})
        shown.append(capsys.readouterr().out)
    # Instants, whatever the format: DuckDB shows them with their zone.
    assert re.search(r"date .+ host .+ lines .+ last", shown[0])
    assert re.search(r"2026-01-31 .+ 100 .+ 2026-01-31 12:09:39\+00", shown[0])
    assert len(re.findall(r"2026-01-31 .+ 200 .+ 75 .+ 2026-01-31 12:09:39\+00", shown[1])) == 2
    assert len(re.findall(r"2026-01-31 .+ 503 .+ 25 .+ 2026-01-31 12:09:36\+00", shown[1])) == 2
