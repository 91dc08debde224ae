"""The configuration of a consumer as options: the table of `consumer add`."""

from __future__ import annotations

from typing import Any, Final

import typer

from jetspark.cli.args.parameters import comma_separated, metadata
from jetspark.cli.args.start import Deliver
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import count, duration, limit
from jetspark.jetstream.model.consumer import AckPolicy, ReplayPolicy

__all__ = ["OPTIONS", "fields"]

#: By field of `ConsumerConfig`, except `filter`, `deliver` and `pull`.
OPTIONS: Final[Options] = {
    "filter": setting(
        list[str], "--filter", metavar="SUBJECT", help="Only matching subjects; repeatable, or with commas."
    ),
    "deliver": (Deliver, None),
    "ack_policy": setting(
        str,
        "--ack",
        choices=(AckPolicy.EXPLICIT, AckPolicy.ALL, AckPolicy.NONE),
        help="Acknowledgement policy (explicit).",
    ),
    "ack_wait": setting(duration, "--wait", help="Time to wait for an acknowledgement (30s)."),
    "max_deliver": setting(count, "--max-deliver", help="Maximum deliveries of a message."),
    "backoff": setting(
        str, "--backoff", metavar="DURATIONS", help="Delays before redeliveries, like 1s,10s,1m."
    ),
    "replay_policy": setting(str, "--replay", choices=ReplayPolicy, help="Speed of delivery (instant)."),
    "max_ack_pending": setting(count, "--max-pending", help="Maximum unacknowledged messages (1000)."),
    "description": setting(str, "--description", metavar="TEXT", help="Description."),
    "sample_freq": setting(
        str, "--sample", metavar="PERCENT", help="Percentage of acknowledgements to sample."
    ),
    "headers_only": setting(bool, "--headers-only", help="Deliver headers without data."),
    "pull": setting(bool, "--pull", help="Pull consumer; the default without --target."),
    "max_waiting": setting(count, "--max-waiting", help="Maximum waiting pulls (512)."),
    "max_batch": setting(count, "--max-pull-batch", help="Maximum messages per pull."),
    "max_expires": setting(duration, "--max-pull-expire", help="Maximum expiry of a pull."),
    "max_bytes": setting(limit, "--max-pull-bytes", help="Maximum bytes per pull."),
    "deliver_subject": setting(
        str, "--target", metavar="SUBJECT", help="Push consumer: deliver to this subject."
    ),
    "deliver_group": setting(
        str, "--deliver-group", metavar="NAME", help="Push: queue group of the subscribers."
    ),
    "idle_heartbeat": setting(duration, "--heartbeat", help="Push: interval of heartbeats."),
    "flow_control": setting(
        bool, "--flow-control", help="Push: pause delivery when the client falls behind."
    ),
    "rate_limit_bps": setting(count, "--bps", help="Push: rate limit in bits per second."),
    "inactive_threshold": setting(
        duration, "--inactive-threshold", help="Delete the consumer after this long without use."
    ),
    "num_replicas": setting(count, "--replicas", help="Replicas of its state."),
    "mem_storage": setting(bool, "--memory", help="Keep its state in memory."),
    "metadata": setting(list[str], "--metadata", metavar="NAME=VALUE", help="Repeatable NAME=VALUE pairs."),
}


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `ConsumerConfig` that were given."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if found.pop("pull", False) and "deliver_subject" in found:
        raise typer.BadParameter("--pull and --target exclude each other", param_hint="--pull")
    subjects = comma_separated(found.pop("filter", None))
    if len(subjects) == 1:
        found["filter_subject"] = subjects[0]
    elif subjects:
        found["filter_subjects"] = subjects
    if "deliver" in found:
        found |= found.pop("deliver")._asdict()
    if "backoff" in found:
        try:
            found["backoff"] = [duration(each) for each in comma_separated([found["backoff"]])]
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--backoff") from None
    if "metadata" in found:
        found["metadata"] = metadata(found["metadata"])
    return found
