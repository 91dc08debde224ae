"""The options that key-value buckets and object stores share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jetspark.cli.args.parameters import metadata
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import count, duration, limit
from jetspark.jetstream.model.stream import StorageType

__all__ = ["bucket_options", "chosen"]


def bucket_options(bucket: str, entry: str) -> Options:
    """The options, by field of the configuration. `bucket` and `entry` are the nouns in their help."""
    return {
        "ttl": setting(duration, "--ttl", help=f"Maximum age of {entry}, like 7d; 0 for no limit."),
        "description": setting(str, "--description", metavar="TEXT", help="Description."),
        "storage": setting(str, "--storage", choices=StorageType, help="Where data is kept (file)."),
        "replicas": setting(count, "--replicas", help="Number of replicas, 1 to 5."),
        "max_bytes": setting(
            limit, "--max-bucket-size", help=f"Maximum size of the {bucket}; -1 for no limit."
        ),
        "compression": setting(bool, "--compress/--no-compress", help="Compress data on disk."),
        "metadata": setting(
            list[str], "--metadata", metavar="NAME=VALUE", help="Repeatable NAME=VALUE pairs."
        ),
    }


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, with the pairs of `--metadata` as a dict."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if isinstance(found.get("metadata"), list):
        found["metadata"] = metadata(found["metadata"])
    return found
