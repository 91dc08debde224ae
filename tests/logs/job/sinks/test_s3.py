"""Tables on an object store. Spark has no classes for S3 here, so pyarrow writes the files of a batch."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.sinks.delta import DeltaSink, DeltaWriter, _added
from jetspark.logs.job.sinks.iceberg import IcebergSink
from jetspark.logs.job.sinks.iceberg.table import load_table
from jetspark.logs.job.sinks.iceberg.writer import IcebergWriter
from jetspark.logs.toml_lines import Where
from tests.logs.job.support import config_of
from tests.spark.processes import Program
from tests.support.waiting import wait_until

PARSE = 'format = "json"\ntime = "at"\nfields = { at = "string", n = "bigint" }'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that speaks S3, with a bucket `logs`."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    program = Program(command, tmp_path_factory.mktemp("s3") / "moto.log")

    def address() -> re.Match[str] | None:
        program.check()
        return re.search(r"http://127\.0\.0\.1:\d+", program.said())

    try:
        wait_until(lambda: address() is not None, "the S3 server", 120)
        found = address()
        assert found is not None
        url = str(found[0])
        with urllib.request.urlopen(urllib.request.Request(f"{url}/logs", method="PUT"), timeout=60):
            yield url
    finally:
        program.close()


@pytest.fixture
def put(url: str) -> Callable[[str, range], None]:
    """Writes a file with numbers."""
    host = url.removeprefix("http://")
    store = fs.S3FileSystem(
        access_key="a", secret_key="b", endpoint_override=host, scheme="http", region="eu-central-1"
    )

    def put(path: str, numbers: range) -> None:
        pyarrow.parquet.write_table(pyarrow.table({"n": list(numbers)}), f"logs/{path}", filesystem=store)

    return put


def settings(place: Path, format: str, sink: str) -> tuple[Config, Where]:
    config_of(place, PARSE, format=format, sink=f"partition_by = []\n{sink}")
    file = place / "pipeline.toml"
    file.write_text(file.read_text().replace('"table"', f'"s3a://logs/{format}"'))
    return read_config(file)


def test_the_options_of_a_delta_table_reach_the_store(
    url: str, put: Callable[[str, range], None], tmp_path: Path
) -> None:
    options = {
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "eu-central-1",
        "aws_endpoint_url": url,
        "aws_allow_http": "true",
    }
    given = ", ".join(f'{key} = "{value}"' for key, value in options.items())
    config, where = settings(tmp_path, "delta", f"storage_options = {{ {given} }}")
    assert isinstance(config.sink, DeltaSink)
    schema = StructType().add("n", "long")
    writer = DeltaWriter(config.sink, config, where)
    for batch in range(3):
        put(f"delta/data/one/{batch}-a/part-0.parquet", range(2 * batch, 2 * batch + 2))
        writer.commit(_added(config.sink, f"data/one/{batch}-a"), schema, "one", batch)
    assert config.sink.compact(config, where, timedelta(0)) == (3, 1, 3)
    with pytest.raises(UsageError, match="has a batch 2 of this checkpoint"):
        DeltaWriter(config.sink, config, where).commit([], schema, "one", 2)
    table = DeltaTable("s3a://logs/delta", storage_options=options)
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(6))


def test_the_properties_of_an_iceberg_catalog_reach_the_store(
    url: str, put: Callable[[str, range], None], tmp_path: Path
) -> None:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.endpoint": url,
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "eu-central-1",
    }
    given = ", ".join(f'"{key}" = "{value}"' for key, value in properties.items())
    config, where = settings(tmp_path, "iceberg", f"catalog = {{ {given} }}")
    assert isinstance(config.sink, IcebergSink)
    writer = IcebergWriter(config.sink, config, where)
    for batch in range(3):
        file = f"iceberg/data/one/{batch}-a/part-0.parquet"
        put(file, range(2 * batch, 2 * batch + 2))
        writer.commit([f"s3a://logs/{file}"], "one", batch)
    assert config.sink.compact(config, where, timedelta(0)) == (3, 1, 3)
    assert config.sink.compact(config, where, timedelta(days=2)) == (0, 0, 0)
    put(file, range(4, 6))
    with pytest.raises(UsageError, match="has a batch 2 of this checkpoint"):
        writer.commit([f"s3a://logs/{file}"], "one", 2)
    table = load_table(config.sink, config)
    assert table is not None
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(6))
