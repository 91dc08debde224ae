"""The configuration of a stream as options: one table for `stream add` and `stream edit`."""

from __future__ import annotations

from typing import Any, Final

from jetspark.cli.args.parameters import comma_separated, metadata
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import count, duration, limit
from jetspark.jetstream.model import stream as model

__all__ = ["OPTIONS", "RETENTIONS", "fields"]

#: The names of the `nats` CLI for retention policies, where they differ.
RETENTIONS: Final = {"work": "workqueue"}

#: By field of `StreamConfig`, except `ack`, `cluster` and `tags`.
OPTIONS: Final[Options] = {
    "subjects": setting(
        list[str], "--subjects", metavar="SUBJECT", help="Subjects to store; repeatable, or with commas."
    ),
    "description": setting(str, "--description", metavar="TEXT", help="Description."),
    "storage": setting(str, "--storage", choices=model.StorageType, help="Where messages are kept (file)."),
    "retention": setting(
        str,
        "--retention",
        choices=model.RetentionPolicy,
        synonyms=RETENTIONS,
        help="When messages are deleted (limits).",
    ),
    "discard": setting(
        str, "--discard", choices=model.DiscardPolicy, help="Messages a full stream drops (old)."
    ),
    "max_msgs": setting(count, "--max-msgs", help="Maximum number of messages; -1 for no limit."),
    "max_msgs_per_subject": setting(
        count, "--max-msgs-per-subject", help="Maximum number of messages per subject."
    ),
    "max_bytes": setting(limit, "--max-bytes", help="Maximum size, like 10GB; -1 for no limit."),
    "max_age": setting(duration, "--max-age", help="Maximum age of a message, like 7d; 0 for no limit."),
    "max_msg_size": setting(limit, "--max-msg-size", help="Maximum size of a message; -1 for no limit."),
    "max_consumers": setting(count, "--max-consumers", help="Maximum number of consumers; -1 for no limit."),
    "num_replicas": setting(count, "--replicas", help="Number of replicas, 1 to 5."),
    "ack": setting(bool, "--ack/--no-ack", help="Acknowledge published messages (yes)."),
    "duplicate_window": setting(duration, "--dupe-window", help="How long message ids are remembered (2m)."),
    "compression": setting(
        str, "--compression", choices=model.StoreCompression, help="Compression on disk (none)."
    ),
    "first_seq": setting(count, "--first-sequence", help="Sequence of the first message."),
    "allow_direct": setting(
        bool, "--allow-direct/--no-direct", help="Let every replica answer direct gets (no)."
    ),
    "allow_rollup_hdrs": setting(bool, "--allow-rollup/--no-rollup", help="Accept the Nats-Rollup header."),
    "deny_delete": setting(bool, "--deny-delete", help="Refuse to delete messages; cannot be undone."),
    "deny_purge": setting(bool, "--deny-purge", help="Refuse to purge; cannot be undone."),
    "allow_msg_ttl": setting(bool, "--allow-msg-ttl", help="Accept the Nats-TTL header; cannot be undone."),
    "allow_atomic": setting(bool, "--allow-atomic/--no-atomic", help="Accept atomic batches."),
    "mirror": setting(str, "--mirror", metavar="STREAM", help="Mirror this stream."),
    "sources": setting(
        list[str], "--source", metavar="STREAM", help="Copy messages from this stream; repeatable."
    ),
    "cluster": setting(str, "--cluster", metavar="NAME", help="Place the stream in this cluster."),
    "tags": setting(list[str], "--tag", metavar="TAG", help="Place it on servers with this tag; repeatable."),
    "metadata": setting(list[str], "--metadata", metavar="NAME=VALUE", help="Repeatable NAME=VALUE pairs."),
}


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `StreamConfig` that were given."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if "subjects" in found:
        found["subjects"] = comma_separated(found["subjects"])
    if "ack" in found:
        found["no_ack"] = not found.pop("ack")
    if "mirror" in found:
        found["mirror"] = model.StreamSource(name=found["mirror"])
    if "sources" in found:
        found["sources"] = [model.StreamSource(name=name) for name in comma_separated(found["sources"])]
    if "metadata" in found:
        found["metadata"] = metadata(found["metadata"])
    cluster, tags = found.pop("cluster", None), comma_separated(found.pop("tags", None))
    if cluster or tags:
        found["placement"] = model.Placement(cluster=cluster, tags=tags)
    return found
