"""An Iceberg table in its catalog, and its properties about batches."""

from __future__ import annotations

import os
import uuid
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from jetspark.logs.job.config import Config
from jetspark.logs.job.sinks.iceberg.section import IcebergSink

__all__ = [
    "batch_property",
    "checkpoint_property",
    "fail_if_changed",
    "has_batch",
    "load_table",
    "note_version",
    "open_catalog",
]

#: Seconds that a process waits for the one that writes to the catalog of a local table.
_BUSY_TIMEOUT: Final = 60


def open_catalog(sink: IcebergSink) -> Catalog:
    """The catalog that is configured, or the one in the directory of the table."""
    given = dict(sink.catalog)
    if not given:
        os.makedirs(sink.path, exist_ok=True)
        uri = f"sqlite:///{sink.path}/catalog.db?timeout={_BUSY_TIMEOUT}"
        given = {"type": "sql", "uri": uri, "warehouse": sink.path}
    return load_catalog(given.pop("name", "jetspark"), **given)


def load_table(sink: IcebergSink, config: Config) -> Table | None:
    """The table, or None if it does not exist."""
    if not sink.catalog and not os.path.exists(f"{sink.path}/catalog.db"):
        return None
    try:
        return open_catalog(sink).load_table(sink.identifier(config))
    except NoSuchTableError:
        return None


def batch_property(owner: str) -> str:
    """The table property with the last batch of a checkpoint."""
    return f"jetspark.batch.{owner}"


def checkpoint_property(config: Config) -> str:
    """The table property with the checkpoint of a job."""
    return f"jetspark.checkpoint.{config.name}"


def has_batch(table: Table, owner: str, batch: int) -> bool:
    """Whether the table has a batch."""
    return int(table.properties.get(batch_property(owner), -1)) >= batch


def note_version(sink: IcebergSink, table: Table) -> None:
    """Name the newest version for readers without a catalog."""
    if sink.catalog:
        return
    hint = f"{sink.path}/metadata/version-hint.text"
    noted = None
    # The job and a compaction may note their versions at the same time: the last one looks again.
    while (version := table.metadata_location) != noted:
        new = f"{hint}.{uuid.uuid4().hex}"
        with open(new, "w", encoding="utf-8") as file:
            file.write(os.path.basename(version).removesuffix(".metadata.json"))
        os.replace(new, hint)
        noted = version
        table.refresh()


def fail_if_changed(table: Table) -> Table:
    """Let the next commit fail if the table has changed: pyiceberg would repeat it without looking."""
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table
