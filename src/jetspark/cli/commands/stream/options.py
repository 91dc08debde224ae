"""The configuration of a stream as options: one table for `stream add` and `stream edit`."""

from __future__ import annotations

from typing import Any, Final

from jetspark.cli.args.parameters import (
    choice_option,
    comma_separated,
    count_option,
    duration_option,
    limit_option,
    metadata,
    option,
)
from jetspark.cli.args.table import Options, setting
from jetspark.jetstream.model.stream import (
    DiscardPolicy,
    Placement,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamSource,
)

__all__ = ["OPTIONS", "RETENTIONS", "fields"]

#: The names of the `nats` CLI for retention policies, where they differ.
RETENTIONS: Final = {"work": "workqueue"}

#: By field of `StreamConfig`, except `ack`, `cluster` and `tags`.
OPTIONS: Final[Options] = {
    "subjects": setting(
        list[str],
        option("--subjects", metavar="SUBJECT", help="Subjects to store; repeatable, or with commas."),
    ),
    "description": setting(str, option("--description", metavar="TEXT", help="Description.")),
    "storage": setting(
        str, choice_option("--storage", choices=StorageType, help="Where messages are kept (file).")
    ),
    "retention": setting(
        str,
        choice_option(
            "--retention",
            choices=RetentionPolicy,
            synonyms=RETENTIONS,
            help="When messages are deleted (limits).",
        ),
    ),
    "discard": setting(
        str, choice_option("--discard", choices=DiscardPolicy, help="Messages a full stream drops (old).")
    ),
    "max_msgs": setting(int, count_option("--max-msgs", help="Maximum number of messages; -1 is no limit.")),
    "max_msgs_per_subject": setting(
        int, count_option("--max-msgs-per-subject", help="Maximum number of messages per subject.")
    ),
    "max_bytes": setting(int, limit_option("--max-bytes", help="Maximum size, like 10GB; -1 is no limit.")),
    "max_age": setting(
        float, duration_option("--max-age", help="Maximum age of a message, like 7d; 0 is no limit.")
    ),
    "max_msg_size": setting(
        int, limit_option("--max-msg-size", help="Maximum size of a message; -1 is no limit.")
    ),
    "max_consumers": setting(
        int, count_option("--max-consumers", help="Maximum number of consumers; -1 is no limit.")
    ),
    "num_replicas": setting(int, count_option("--replicas", help="Number of replicas, 1 to 5.")),
    "ack": setting(bool, option("--ack/--no-ack", help="Acknowledge published messages (yes).")),
    "duplicate_window": setting(
        float, duration_option("--dupe-window", help="How long message ids are remembered (2m).")
    ),
    "compression": setting(
        str, choice_option("--compression", choices=StoreCompression, help="Compression on disk (none).")
    ),
    "first_seq": setting(int, count_option("--first-sequence", help="Sequence of the first message.")),
    "allow_direct": setting(
        bool, option("--allow-direct/--no-direct", help="Let every replica answer direct gets (yes).")
    ),
    "allow_rollup_hdrs": setting(
        bool, option("--allow-rollup/--no-rollup", help="Accept the Nats-Rollup header.")
    ),
    "deny_delete": setting(
        bool, option("--deny-delete", help="Refuse to delete messages; cannot be undone.")
    ),
    "deny_purge": setting(bool, option("--deny-purge", help="Refuse to purge; cannot be undone.")),
    "allow_msg_ttl": setting(
        bool, option("--allow-msg-ttl", help="Accept the Nats-TTL header; cannot be undone.")
    ),
    "allow_atomic": setting(bool, option("--allow-atomic/--no-atomic", help="Accept atomic batches.")),
    "mirror": setting(str, option("--mirror", metavar="STREAM", help="Mirror this stream.")),
    "sources": setting(
        list[str], option("--source", metavar="STREAM", help="Copy messages from this stream; repeatable.")
    ),
    "cluster": setting(str, option("--cluster", metavar="NAME", help="Place the stream in this cluster.")),
    "tags": setting(
        list[str], option("--tag", metavar="TAG", help="Place it on servers with this tag; repeatable.")
    ),
    "metadata": setting(
        list[str], option("--metadata", metavar="NAME=VALUE", help="Repeatable NAME=VALUE pairs.")
    ),
}


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `StreamConfig` that were given."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if "subjects" in found:
        found["subjects"] = comma_separated(found["subjects"])
    if "ack" in found:
        found["no_ack"] = not found.pop("ack")
    if "mirror" in found:
        found["mirror"] = StreamSource(name=found["mirror"])
    if "sources" in found:
        found["sources"] = [StreamSource(name=name) for name in comma_separated(found["sources"])]
    if "metadata" in found:
        found["metadata"] = metadata(found["metadata"])
    cluster, tags = found.pop("cluster", None), comma_separated(found.pop("tags", None))
    if cluster or tags:
        found["placement"] = Placement(cluster=cluster, tags=tags)
    return found
