"""The configuration of a consumer: `ConsumerConfig`, with the checks that the server would make.

`None` leaves a value to the server. The numbers in the checks are those of nats-server 2.15; nothing is
refused here that the server accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

import msgspec

from jetspark.jetstream.model.base import Duration, Model, UInt
from jetspark.jetstream.model.stream import MAX_DESCRIPTION_BYTES, MAX_METADATA_BYTES, MAX_REPLICAS
from jetspark.wire.subjects import check_filter, check_name, check_subject, subject_matches

__all__ = ["AckPolicy", "ConsumerConfig", "DeliverPolicy", "PriorityPolicy", "ReplayPolicy"]


class AckPolicy(StrEnum):
    """How messages are acknowledged."""

    #: Each message by itself.
    EXPLICIT = "explicit"
    #: A message and all before it.
    ALL = "all"
    #: Not at all: a message counts as done when it is sent.
    NONE = "none"
    #: Like `all`, by answering flow control; for consumers that other streams source from. Server 2.14.
    FLOW_CONTROL = "flow_control"


class DeliverPolicy(StrEnum):
    """Where in the stream a consumer starts."""

    #: At the first message.
    ALL = "all"
    #: At the last one.
    LAST = "last"
    #: At the next one to be stored.
    NEW = "new"
    #: At `opt_start_seq`.
    BY_START_SEQUENCE = "by_start_sequence"
    #: At the first message of `opt_start_time` or later.
    BY_START_TIME = "by_start_time"
    #: With the last message of each subject; needs a filter.
    LAST_PER_SUBJECT = "last_per_subject"


class ReplayPolicy(StrEnum):
    """How fast stored messages are delivered."""

    #: As fast as possible.
    INSTANT = "instant"
    #: As far apart as they were stored.
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    """Which client gets messages when several pull from one consumer. Server 2.11."""

    #: The client that asked first.
    NONE = "none"
    #: Clients that ask with `min_pending` or `min_ack_pending`, only when so much is waiting.
    OVERFLOW = "overflow"
    #: One client, until it is silent for `priority_timeout`; the others stand by.
    PINNED_CLIENT = "pinned_client"
    #: The client that asked with the lowest `priority`. Server 2.12.
    PRIORITIZED = "prioritized"


class _Given(dict[str, Any]):
    """The `extra` of a configuration that remembers which fields its author gave."""

    fields: frozenset[str] = frozenset()


class _RemembersFields(msgspec.StructMeta):
    """Lets a configuration remember which fields were given, also where they equal their default."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        config = super().__call__(*args, **fields)
        if type(config.extra) is dict:
            _remember(config, frozenset(fields) - {"extra"})
        return config


def _remember(config: ConsumerConfig, fields: frozenset[str]) -> None:
    given = _Given(config.extra)
    given.fields = fields
    msgspec.structs.force_setattr(config, "extra", given)


class ConsumerConfig(Model, frozen=True, kw_only=True, metaclass=_RemembersFields):
    """The settings of a consumer. None is required.

    With `durable_name` the consumer stays until it is deleted. With `name` alone, or without any name,
    it is ephemeral: the server deletes it after `inactive_threshold`, 5 seconds by default, without
    use. With `deliver_subject` messages are pushed there; without it clients pull.

    Raises `UsageError` at construction for settings that the server would refuse, with the field named.

    Attributes:
        durable_name: Name of a consumer that stays, one word: no spaces and none of `. * > / \\`; by
            default it does not stay.
        name: Name, one word, at most 255 characters; the server chooses one by default. The same as
            `durable_name`, if both are given.
        description: Free text, none by default. At most 4 KiB.
        deliver_policy: Where in the stream it starts; at the first message by default. Cannot be changed
            later.
        opt_start_seq: First sequence to deliver, with `deliver_policy=by_start_sequence`; none by
            default.
        opt_start_time: Earliest time to deliver, with `deliver_policy=by_start_time`; none by default.
        ack_policy: How messages are acknowledged; each by itself by default. Cannot be changed later.
        ack_wait: Seconds until a message without acknowledgement is delivered again; 30 by default.
        max_deliver: Most deliveries of a message; -1, the default, means no limit.
        backoff: Seconds to wait before each redelivery instead of `ack_wait`, none by default; the last one
            repeats. Not more entries than `max_deliver`.
        filter_subject: Deliver only messages that match; by default, everything.
        filter_subjects: Deliver messages that match any of these, none by default; none may include another.
            Server 2.10.
        replay_policy: How fast stored messages are delivered; at once by default. Cannot be changed later.
        rate_limit_bps: Push only: most bits per second; no limit by default.
        sample_freq: Share of acknowledgements that are measured and published as metrics: `"50"` or
            `"50%"`; none by default.
        max_waiting: Pull only: most pull requests that wait at a time; 512 by default. Cannot be changed
            later.
        max_ack_pending: Most messages that are delivered and not acknowledged; 1000 by default, -1 means no
            limit.
        flow_control: Push only: pause when the client falls behind, not by default; needs `idle_heartbeat`.
        headers_only: Deliver headers, with the size in `Nats-Msg-Size`, without payloads; not by default.
        max_batch: Pull only: most messages that one request may ask for; no limit by default.
        max_expires: Pull only: most seconds that one request may wait, at least 0.001; no limit by default.
        max_bytes: Pull only: most bytes that one request may ask for; no limit by default.
        deliver_subject: Where messages are pushed. Without it, by default, clients pull.
        deliver_group: Push only: queue group whose members share the messages; none by default.
        idle_heartbeat: Push only: seconds of silence after which the server sends a heartbeat, at least 0.1;
            none by default.
        inactive_threshold: Seconds without use after which the consumer is deleted, also a durable one; 5
            by default for ephemeral ones, never for durable ones.
        num_replicas: Servers that hold its state, at most as many as the stream has; by default as many as
            the stream has, or 1 for ephemeral ones.
        mem_storage: Keep its state in memory, whatever the stream does; by default as the stream does.
        direct: Between servers: read for a mirror or source; not by default.
        sourcing: Between servers: read for a durable source; not by default. Server 2.14.
        metadata: Names and values, none by default, at most 128 KiB in all. Keys that start with `_nats.`
            are the server's. Server 2.10.
        pause_until: Deliver nothing before this time; by default it is not paused. Server 2.11.
        priority_groups: Names of the priority groups, none by default, up to 16 letters, digits and `-_/=`;
            see `priority_policy`. Server 2.11.
        priority_policy: Which client gets messages when several pull, by default the one that asked first;
            needs `priority_groups`. Server 2.11.
        priority_timeout: Seconds after which a silent pinned client loses its place; 120 by default. Server
            2.11.
    """

    # The server reads a missing ack_policy as "none".
    _always_sent: ClassVar[frozenset[str]] = frozenset({"ack_policy"})
    _levels: ClassVar[Mapping[str, int]] = {
        "pause_until": 1,
        "priority_groups": 1,
        "priority_policy": 1,
        "priority_timeout": 1,
    }

    durable_name: str | None = None
    name: str | None = None
    description: str | None = None
    deliver_policy: DeliverPolicy | str = DeliverPolicy.ALL
    opt_start_seq: UInt | None = None
    opt_start_time: datetime | None = None
    ack_policy: AckPolicy | str = AckPolicy.EXPLICIT
    ack_wait: Duration | None = None
    max_deliver: int | None = None
    backoff: list[Duration] = msgspec.field(default_factory=list)
    filter_subject: str | None = None
    filter_subjects: list[str] = msgspec.field(default_factory=list)
    replay_policy: ReplayPolicy | str = ReplayPolicy.INSTANT
    rate_limit_bps: UInt | None = None
    sample_freq: str | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int | None = None
    max_expires: Duration | None = None
    max_bytes: int | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    idle_heartbeat: Duration | None = None
    inactive_threshold: Duration | None = None
    num_replicas: int | None = None
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    pause_until: datetime | None = None
    priority_groups: list[str] = msgspec.field(default_factory=list)
    priority_policy: PriorityPolicy | str = PriorityPolicy.NONE
    priority_timeout: Duration | None = None

    @property
    def given(self) -> frozenset[str]:
        """The fields that were given when it was written; none of those that the server sent."""
        return self.extra.fields if isinstance(self.extra, _Given) else frozenset()

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed, and checked, also when the original came from the server."""
        changed = super().replace(**changes)
        if isinstance(self.extra, _Given):
            _remember(changed, self.given | changes.keys())
        return changed

    @property
    def api_level(self) -> int:
        """The level of the API that a server must have to know all the fields that are set."""
        return max(super().api_level, 4 if self.ack_policy == AckPolicy.FLOW_CONTROL else 0)

    @property
    def is_push(self) -> bool:
        """Whether messages are pushed to `deliver_subject` instead of pulled."""
        return bool(self.deliver_subject)

    def check(self) -> None:
        self._check_names()
        self._check_limits()
        self._check_delivery()
        self._check_ack_by_flow_control()
        self._check_start()
        self._check_filters()
        self._check_priority()

    def _check_names(self) -> None:
        for field in ("durable_name", "name"):
            value = getattr(self, field)
            if value is not None:
                check_name(value, self._argument(field))
        if self.durable_name and self.name and self.durable_name != self.name:
            self._refuse("name", f"differs from durable_name={self.durable_name!r}")

    def _check_limits(self) -> None:
        if self.num_replicas is not None and not 0 <= self.num_replicas <= MAX_REPLICAS:
            self._refuse("num_replicas", f"is not from 0 (as the stream) to {MAX_REPLICAS}")
        if self.ack_wait is not None and self.ack_wait < 0:
            self._refuse("ack_wait", "is negative")
        if any(wait < 0 for wait in self.backoff):
            self._refuse("backoff", "has a negative entry")
        if self.max_deliver is not None and 0 < self.max_deliver < len(self.backoff):
            self._refuse("backoff", f"has more entries than max_deliver={self.max_deliver}")
        if self.sample_freq and not _SAMPLE_FREQ.fullmatch(self.sample_freq):
            self._refuse("sample_freq", "is not a whole number of percent, like '50' or '50%'")
        if self.description is not None and len(self.description.encode()) > MAX_DESCRIPTION_BYTES:
            self._refuse("description", f"is longer than {MAX_DESCRIPTION_BYTES} bytes")
        if sum(len(k.encode()) + len(v.encode()) for k, v in self.metadata.items()) > MAX_METADATA_BYTES:
            self._refuse("metadata", f"is larger than {MAX_METADATA_BYTES} bytes")

    def _check_delivery(self) -> None:
        heartbeat = self.idle_heartbeat or 0
        if self.deliver_subject:
            check_subject(self.deliver_subject, self._argument("deliver_subject"))
            if (self.max_waiting or 0) > 0:
                self._refuse("max_waiting", "is only for pull consumers: this one has a deliver_subject")
            if 0 < heartbeat < 0.1:
                self._refuse("idle_heartbeat", "is neither 0 nor at least 0.1 seconds")
            if self.flow_control and heartbeat <= 0 and self.ack_policy != AckPolicy.FLOW_CONTROL:
                self._refuse("flow_control", "needs idle_heartbeat")
            if self.ack_policy == AckPolicy.NONE and (self.max_ack_pending or 0) > 0:
                self._refuse("max_ack_pending", "needs an ack_policy other than 'none' when pushing")
            if self.direct and self.durable_name:
                self._refuse("direct", "excludes durable_name")
            return
        push_only = ("flow_control", "rate_limit_bps", "direct")
        self._refuse_any(push_only, "is only for push consumers: it needs deliver_subject")
        if heartbeat > 0:
            self._refuse(
                "idle_heartbeat", "is only for push consumers: pull consumers set it in each request"
            )
        if 0 < (self.max_expires or 0) < 0.001:
            self._refuse("max_expires", "is neither 0 nor at least 0.001 seconds")

    def _check_ack_by_flow_control(self) -> None:
        if self.ack_policy != AckPolicy.FLOW_CONTROL:
            return
        if not self.deliver_subject:
            self._refuse("ack_policy", "is only for push consumers: it needs deliver_subject")
        if self.max_ack_pending is not None and self.max_ack_pending < 0:
            self._refuse("max_ack_pending", "must be a limit with ack_policy='flow_control'")
        self._refuse_any(("ack_wait", "backoff"), "excludes ack_policy='flow_control'")
        if (self.max_deliver or 0) > 0:
            self._refuse("max_deliver", "excludes ack_policy='flow_control'")

    def _check_start(self) -> None:
        for field, policy in (
            ("opt_start_seq", DeliverPolicy.BY_START_SEQUENCE),
            ("opt_start_time", DeliverPolicy.BY_START_TIME),
        ):
            given = bool(getattr(self, field))
            if given and self.deliver_policy != policy:
                self._refuse(field, f"needs deliver_policy={str(policy)!r}")
            if not given and self.deliver_policy == policy:
                self._refuse("deliver_policy", f"needs {field}")

    def _check_filters(self) -> None:
        if self.filter_subject:
            check_filter(self.filter_subject, self._argument("filter_subject"))
            if self.filter_subjects:
                self._refuse("filter_subject", "excludes filter_subjects: give one of them")
        for index, subject in enumerate(self.filter_subjects):
            check_filter(subject, self._argument("filter_subjects"))
            for other in self.filter_subjects[:index]:
                if _includes(subject, other) or _includes(other, subject):
                    self._refuse("filter_subjects", f"overlap: {other!r} and {subject!r}")
        if self.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT and not (
            self.filter_subject or self.filter_subjects
        ):
            self._refuse("deliver_policy", "needs filter_subject or filter_subjects; '>' for all")

    def _check_priority(self) -> None:
        if self.priority_policy == PriorityPolicy.NONE:
            if self.priority_groups:
                self._refuse("priority_groups", "need a priority_policy other than 'none'")
            if (self.priority_timeout or 0) > 0:
                self._refuse("priority_timeout", "needs a priority_policy other than 'none'")
            return
        if self.deliver_subject:
            self._refuse("priority_policy", "is only for pull consumers: this one has a deliver_subject")
        if not self.priority_groups:
            self._refuse("priority_policy", "needs priority_groups")
        for group in self.priority_groups:
            if not _PRIORITY_GROUP.fullmatch(group):
                self._refuse("priority_groups", "are not of 1 to 16 letters, digits and - _ / =")


_SAMPLE_FREQ = re.compile(r"\+?[0-9]+%?")
_PRIORITY_GROUP = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def _includes(pattern: str, other: str) -> bool:
    """Whether everything that matches `other` matches `pattern`, as the server sees it."""
    if other.endswith(">") and not pattern.endswith(">"):
        return False
    return subject_matches(pattern, other)
