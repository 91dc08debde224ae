"""The settings of a stream as options: one table for `add` and `edit`."""

from __future__ import annotations

from typing import Any, Final

from jetspark.cli.args.parameters import (
    choice,
    count_option,
    duration_option,
    flag,
    limit_option,
    many,
    pairs,
    word,
    words,
)
from jetspark.cli.args.signatures import Options
from jetspark.jetstream.model.stream import (
    DiscardPolicy,
    Placement,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamSource,
)

__all__ = ["OPTIONS", "RETENTIONS", "fields"]

#: What the `nats` CLI calls it.
RETENTIONS: Final = {"work": "workqueue"}

OPTIONS: Final[Options] = {
    "subjects": (
        many("--subjects", metavar="SUBJECT", help="What it stores; several, or with commas."),
        None,
    ),
    "description": (word("--description", help="For people."), None),
    "storage": (choice("--storage", choices=StorageType, help="Where it keeps messages (file)."), None),
    "retention": (
        choice(
            "--retention",
            choices=RetentionPolicy,
            synonyms=RETENTIONS,
            help="When it lets go of a message (limits).",
        ),
        None,
    ),
    "discard": (choice("--discard", choices=DiscardPolicy, help="What a full stream drops (old)."), None),
    "max_msgs": (count_option("--max-msgs", help="Most messages; -1 is no limit."), None),
    "max_msgs_per_subject": (
        count_option("--max-msgs-per-subject", help="Most messages of a subject."),
        None,
    ),
    "max_bytes": (limit_option("--max-bytes", help="Most bytes, like 10GB; -1 is no limit."), None),
    "max_age": (duration_option("--max-age", help="Oldest message, like 7d; 0 is no limit."), None),
    "max_msg_size": (limit_option("--max-msg-size", help="Largest message; -1 is no limit."), None),
    "max_consumers": (count_option("--max-consumers", help="Most consumers; -1 is no limit."), None),
    "num_replicas": (count_option("--replicas", help="Servers that hold a copy, 1 to 5."), None),
    "ack": (flag("--ack/--no-ack", help="Acknowledge what is published (yes)."), None),
    "duplicate_window": (
        duration_option("--dupe-window", help="How long message ids are remembered (2m)."),
        None,
    ),
    "compression": (
        choice("--compression", choices=StoreCompression, help="Compression on disk (none)."),
        None,
    ),
    "first_seq": (count_option("--first-sequence", help="Sequence of the first message."), None),
    "allow_direct": (
        flag("--allow-direct/--no-direct", help="Let every replica answer reads (yes)."),
        None,
    ),
    "allow_rollup_hdrs": (flag("--allow-rollup/--no-rollup", help="Obey Nats-Rollup."), None),
    "deny_delete": (
        flag("--deny-delete", help="Refuse to delete messages, for good."),
        None,
    ),
    "deny_purge": (flag("--deny-purge", help="Refuse to purge, for good."), None),
    "allow_msg_ttl": (flag("--allow-msg-ttl", help="Obey Nats-TTL, for good."), None),
    "allow_atomic": (flag("--allow-atomic/--no-atomic", help="Accept atomic batches."), None),
    "mirror": (word("--mirror", metavar="STREAM", help="Be an exact copy of this stream."), None),
    "sources": (many("--source", metavar="STREAM", help="Copy the messages of this stream in."), None),
    "cluster": (word("--cluster", metavar="NAME", help="The cluster that hosts it."), None),
    "tags": (many("--tag", metavar="TAG", help="A tag that its servers must have."), None),
    "metadata": (many("--metadata", metavar="NAME=VALUE", help="Text by text."), None),
}

_LISTS: Final = ("subjects",)


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `StreamConfig` that were given."""
    said = {name: value for name, value in given.items() if value is not None and value != []}
    for name in _LISTS:
        if name in said:
            said[name] = words(said[name])
    if "ack" in said:
        said["no_ack"] = not said.pop("ack")
    if "mirror" in said:
        said["mirror"] = StreamSource(name=said["mirror"])
    if "sources" in said:
        said["sources"] = [StreamSource(name=name) for name in words(said["sources"])]
    if "metadata" in said:
        found = pairs(said["metadata"], "=", "--metadata")
        said["metadata"] = {name: values[-1] for name, values in found.items()}
    cluster, tags = said.pop("cluster", None), words(said.pop("tags", None))
    if cluster or tags:
        said["placement"] = Placement(cluster=cluster, tags=tags)
    return said
