"""The settings of a consumer as options: the table of `consumer add`."""

from __future__ import annotations

from typing import Any, Final

import typer

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
from jetspark.cli.args.position import Deliver
from jetspark.cli.args.signatures import Options
from jetspark.cli.args.units import duration
from jetspark.jetstream.model.consumer import AckPolicy, ReplayPolicy

__all__ = ["OPTIONS", "fields"]

OPTIONS: Final[Options] = {
    "filter": (many("--filter", metavar="SUBJECT", help="Only what matches; several, or with commas."), None),
    "deliver": (Deliver, None),
    "ack_policy": (
        choice(
            "--ack",
            choices=(AckPolicy.EXPLICIT, AckPolicy.ALL, AckPolicy.NONE),
            help="How messages are acknowledged (explicit).",
        ),
        None,
    ),
    "ack_wait": (duration_option("--wait", help="Time for an acknowledgement (30s)."), None),
    "max_deliver": (count_option("--max-deliver", help="How often a message is delivered at most."), None),
    "backoff": (word("--backoff", metavar="DURATIONS", help="Waits before redeliveries: 1s,10s,1m."), None),
    "replay_policy": (choice("--replay", choices=ReplayPolicy, help="How fast it delivers (instant)."), None),
    "max_ack_pending": (
        count_option("--max-pending", help="Most messages without acknowledgement (1000)."),
        None,
    ),
    "description": (word("--description", help="For people."), None),
    "sample_freq": (
        word("--sample", metavar="PERCENT", help="Share of acknowledgements that is measured."),
        None,
    ),
    "headers_only": (flag("--headers-only", help="Headers without data."), None),
    "pull": (flag("--pull", help="Clients pull: the default, without --target."), None),
    "max_waiting": (count_option("--max-waiting", help="Most pulls that wait (512)."), None),
    "max_batch": (count_option("--max-pull-batch", help="Most messages of a pull."), None),
    "max_expires": (duration_option("--max-pull-expire", help="Longest that a pull waits."), None),
    "max_bytes": (limit_option("--max-pull-bytes", help="Most bytes of a pull."), None),
    "deliver_subject": (word("--target", metavar="SUBJECT", help="Push messages there."), None),
    "deliver_group": (word("--deliver-group", metavar="NAME", help="Queue group that shares them."), None),
    "idle_heartbeat": (duration_option("--heartbeat", help="Push: silence before a heartbeat."), None),
    "flow_control": (flag("--flow-control", help="Push: pause when the client falls behind."), None),
    "rate_limit_bps": (count_option("--bps", help="Push: bits per second."), None),
    "inactive_threshold": (duration_option("--inactive-threshold", help="Disuse after which it goes."), None),
    "num_replicas": (count_option("--replicas", help="Servers that hold its state."), None),
    "mem_storage": (flag("--memory", help="Keep its state in memory."), None),
    "metadata": (many("--metadata", metavar="NAME=VALUE", help="Text by text."), None),
}


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `ConsumerConfig` that were given."""
    said = {name: value for name, value in given.items() if value is not None and value != []}
    if said.pop("pull", False) and "deliver_subject" in said:
        raise typer.BadParameter(
            "it excludes --target: a consumer pushes or is pulled from", param_hint="--pull"
        )
    subjects = words(said.pop("filter", None))
    if len(subjects) == 1:
        said["filter_subject"] = subjects[0]
    elif subjects:
        said["filter_subjects"] = subjects
    if "deliver" in said:
        said |= said.pop("deliver")._asdict()
    if "backoff" in said:
        try:
            said["backoff"] = [duration(each) for each in words([said["backoff"]])]
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--backoff") from None
    if "metadata" in said:
        found = pairs(said["metadata"], "=", "--metadata")
        said["metadata"] = {name: values[-1] for name, values in found.items()}
    return said
