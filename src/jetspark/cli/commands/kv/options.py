"""The settings of a bucket as options: one table for `kv add` and `kv edit`."""

from __future__ import annotations

from typing import Any, Final

from jetspark.cli.args.buckets import bucket_options, chosen
from jetspark.cli.args.parameters import comma_separated
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import count, duration, limit
from jetspark.jetstream.kv.config import KeyValueConfig
from jetspark.jetstream.kv.status import KeyValueStatus
from jetspark.jetstream.model.stream import Placement, StreamSource

__all__ = ["OPTIONS", "config_of", "options_of"]

#: By field of `KeyValueConfig`, except `cluster` and `tags`.
OPTIONS: Final[Options] = {
    "history": setting(count, "--history", help="Revisions to keep of each key, 1 to 64 (1)."),
    "limit_marker_ttl": setting(
        duration, "--marker-ttl", help="Keep a marker of an expired key for this long; allows --ttl of keys."
    ),
    "max_value_size": setting(limit, "--max-value-size", help="Maximum size of a value; -1 for no limit."),
    **bucket_options("bucket", "a value"),
    "direct": setting(bool, "--direct/--no-direct", help="Let every replica answer reads (yes)."),
    "mirror": setting(str, "--mirror", metavar="BUCKET", help="Mirror this bucket."),
    "sources": setting(
        list[str], "--source", metavar="BUCKET", help="Copy the keys of this bucket; repeatable."
    ),
    "cluster": setting(str, "--cluster", metavar="NAME", help="Place the bucket in this cluster."),
    "tags": setting(list[str], "--tag", metavar="TAG", help="Place it on servers with this tag; repeatable."),
}


def config_of(bucket: str, given: dict[str, Any]) -> KeyValueConfig:
    """The configuration of a bucket with these options."""
    found = chosen(given)
    if "mirror" in found and isinstance(found["mirror"], str):
        found["mirror"] = StreamSource(name=found["mirror"])
    if "sources" in found:
        found["sources"] = [
            each if isinstance(each, StreamSource) else StreamSource(name=each) for each in found["sources"]
        ]
    cluster, tags = found.pop("cluster", None), comma_separated(found.pop("tags", None))
    if cluster or tags:
        found["placement"] = Placement(cluster=cluster, tags=tags)
    return KeyValueConfig(bucket=bucket, **found)


def options_of(status: KeyValueStatus) -> dict[str, Any]:
    """The settings of a bucket, as `config_of` takes them."""
    config = status.stream_info.config
    return {
        "history": status.history,
        "ttl": status.ttl,
        "limit_marker_ttl": status.limit_marker_ttl,
        "description": config.description,
        "storage": config.storage,
        "replicas": config.num_replicas,
        "max_value_size": config.max_msg_size,
        "max_bytes": config.max_bytes,
        "compression": status.compressed,
        "direct": config.allow_direct,
        "mirror": config.mirror,
        "sources": config.sources,
        "placement": config.placement,
        "republish": config.republish,
        "metadata": {name: value for name, value in config.metadata.items() if not name.startswith("_nats.")},
    }
