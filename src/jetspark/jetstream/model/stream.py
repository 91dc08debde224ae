"""The configuration of a stream: `StreamConfig` and its parts, with the checks that the server would make.

`None` leaves a value to the server. The numbers in the checks are those of nats-server 2.15; nothing is
refused here that the server accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import msgspec

from jetspark.jetstream.model.base import Duration, Int32, Model, UInt
from jetspark.wire.subjects import check_filter, check_name, check_subject, subjects_overlap

__all__ = [
    "DiscardPolicy",
    "ExternalStream",
    "PersistMode",
    "Placement",
    "RePublish",
    "RetentionPolicy",
    "StorageType",
    "StoreCompression",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamSource",
    "SubjectTransform",
]

MAX_REPLICAS = 5
MAX_DESCRIPTION_BYTES = 4 * 1024
MAX_METADATA_BYTES = 128 * 1024


class RetentionPolicy(StrEnum):
    """When a stream removes a message."""

    #: When a limit (age, count, bytes) says so.
    LIMITS = "limits"
    #: When every consumer that is interested in it has acknowledged it.
    INTEREST = "interest"
    #: When the one consumer of its subject has acknowledged it.
    WORKQUEUE = "workqueue"


class StorageType(StrEnum):
    """Where a stream keeps its messages."""

    FILE = "file"
    MEMORY = "memory"


class DiscardPolicy(StrEnum):
    """The behaviour of a full stream."""

    #: It deletes its oldest messages.
    OLD = "old"
    #: It refuses new ones.
    NEW = "new"


class StoreCompression(StrEnum):
    """How a file stream compresses its blocks on disk."""

    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    """What a publish acknowledgement guarantees."""

    #: The message was handed to the operating system.
    DEFAULT = "default"
    #: The message may still be in the server's memory only. Faster.
    ASYNC = "async"


class Placement(Model, frozen=True, kw_only=True):
    """Which servers of a cluster may host a stream, or should lead it."""

    #: Name of the cluster.
    cluster: str | None = None
    #: Tags that every chosen server has.
    tags: list[str] = msgspec.field(default_factory=list)
    #: Server that should become leader; only for a leader step-down, never in a stream. Server 2.11.
    preferred: str | None = None


class SubjectTransform(Model, frozen=True, kw_only=True):
    """Stores messages that match `src` under another subject. Server 2.10."""

    #: Filter on the subject; empty stands for all.
    src: str = ""
    #: The subject they get; `{{wildcard(1)}}` and its siblings refer to `src`.
    dest: str


class RePublish(Model, frozen=True, kw_only=True):
    """Publishes every stored message again, for subscribers without JetStream."""

    #: Filter on the stored subject; all by default.
    src: str | None = None
    #: Where the copy goes. It must not lead back into the stream.
    dest: str
    #: Send the headers (and the size) without the payload.
    headers_only: bool = False


class StreamConsumerLimits(Model, frozen=True, kw_only=True):
    """Defaults and limits for the consumers of a stream. Server 2.10."""

    #: Longest `inactive_threshold`, in seconds, and the default for consumers that set none.
    inactive_threshold: Duration | None = None
    #: Largest `max_ack_pending`, and the default for consumers that set none.
    max_ack_pending: int | None = None


class ExternalStream(Model, frozen=True, kw_only=True):
    """How to reach a stream in another account or domain."""

    #: API prefix of the other JetStream: `$JS.<domain>.API`, or the one that its account exports.
    api: str = ""
    #: Prefix for the subjects that messages are delivered on, if imports require one.
    deliver: str = ""

    def check(self) -> None:
        for field in ("api", "deliver"):
            if prefix := getattr(self, field):
                check_subject(prefix, self._argument(field))
        if self.api and subjects_overlap(self.api, "$JS.API"):
            self._refuse("api", "is this account's own JetStream: name another domain or account")


class StreamConsumerSource(Model, frozen=True, kw_only=True):
    """A durable consumer, made beforehand, that a source or mirror reads from. Server 2.14."""

    #: Name of the consumer on the origin stream; its `ack_policy` is flow_control.
    name: str
    #: The consumer's deliver subject.
    deliver_subject: str

    def check(self) -> None:
        check_name(self.name, self._argument("name"))
        check_subject(self.deliver_subject, self._argument("deliver_subject"))


class StreamSource(Model, frozen=True, kw_only=True):
    """Another stream that is mirrored or sourced.

    Attributes:
        name: Name of the other stream. Required.
        opt_start_seq: First sequence to copy; by default the first there is.
        opt_start_time: Copy messages stored at this time or later; by default everything.
        filter_subject: Copy only messages that match; by default everything.
        subject_transforms: Filters, each with the subject that matches are stored under, none by default; not
            together with `filter_subject`. Server 2.10.
        external: How to reach the stream, when it is in another account or domain; by default it is in
            this one.
        consumer: Read through this durable consumer; by default through one that the server makes. Server
            2.14.
    """

    name: str
    opt_start_seq: UInt | None = None
    opt_start_time: datetime | None = None
    filter_subject: str | None = None
    subject_transforms: list[SubjectTransform] = msgspec.field(default_factory=list)
    external: ExternalStream | None = None
    consumer: StreamConsumerSource | None = None

    def check(self) -> None:
        # The name of a mirrored stream elsewhere is not looked at; see StreamConfig for the others.
        if self.external is None:
            check_name(self.name, self._argument("name"))
        if self.filter_subject:
            check_filter(self.filter_subject, self._argument("filter_subject"))
            if self.subject_transforms:
                self._refuse("filter_subject", "excludes subject_transforms: put the filter in their `src`")
        if self.consumer is not None:
            own = ("opt_start_seq", "opt_start_time", "filter_subject")
            self._refuse_any(own, "belongs to the consumer, when `consumer` is given")


class StreamConfig(Model, frozen=True, kw_only=True):
    """The settings of a stream. Only `name` is required.

    Raises `UsageError` at construction for settings that the server would refuse, with the field named.

    Attributes:
        name: Name, one word: no spaces and none of `. * > / \\`. At most 255 characters. Required.
        description: Free text, none by default. At most 4 KiB.
        subjects: Subjects that the stream stores; wildcards are allowed. By default, without a mirror and
            sources, the subject that is its name.
        retention: When messages are removed; by default when a limit is reached.
        max_consumers: Most consumers at a time; -1, the default, means no limit.
        max_msgs: Most messages; -1, the default, means no limit.
        max_bytes: Most bytes; -1, the default, means no limit.
        max_age: Age in seconds at which a message is removed, at least 0.1; 0, the default, means no limit.
        max_msgs_per_subject: Most messages of one subject; -1, the default, means no limit. 1 keeps the
            last value of each subject.
        max_msg_size: Largest message in bytes, headers included; -1, the default, means no limit but that of
            the server.
        discard: What a full stream drops: old messages, by default, or new ones.
        storage: Where messages are kept, by default on disk. Cannot be changed later.
        num_replicas: Servers that hold a copy, 1 to 5; 1 by default.
        no_ack: Do not acknowledge published messages; by default they are acknowledged.
        duplicate_window: Seconds during which a `Nats-Msg-Id` is remembered; 2 minutes by default, at least
            0.1, at most `max_age`.
        placement: Which servers may host it; by default any.
        mirror: Be an exact copy of this stream, then without its own subjects; by default it is not a copy.
        sources: Copy the messages of these streams in; none by default.
        compression: How blocks on disk are compressed; not at all by default. Server 2.10.
        first_seq: Sequence of the first message; 1 by default. Server 2.10.
        subject_transform: Store messages under another subject than they were published to; not by default.
            Server 2.10.
        republish: Publish stored messages again; not by default.
        allow_direct: Let every replica answer reads of single messages, without going through the leader;
            not by default.
        mirror_direct: Let a mirror answer such reads for its origin; not by default. The server copies this
            from the origin.
        discard_new_per_subject: Refuse new messages of a subject that has `max_msgs_per_subject`, not by
            default; needs `discard=new`.
        sealed: Nothing can be stored or deleted any more; not by default. Only by update, and for good.
        deny_delete: Refuse to delete single messages; not by default. For good.
        deny_purge: Refuse to purge; not by default. For good.
        allow_rollup_hdrs: Obey `Nats-Rollup`, which replaces all earlier messages of a subject or of the
            stream; not by default.
        consumer_limits: Limits for its consumers; none by default. Server 2.10.
        allow_msg_ttl: Obey `Nats-TTL`, an age limit of a single message; not by default. For good. Server
            2.11.
        subject_delete_marker_ttl: Leave a marker for this many seconds, at least 1, when the last message of
            a subject is removed; none by default. Turns on `allow_msg_ttl` and `allow_rollup_hdrs`. Server
            2.11.
        allow_msg_counter: Be a stream of counters: `Nats-Incr` adds to the value of a subject; not by
            default. For good. Server 2.12.
        allow_atomic: Accept batches that are stored all or not at all; not by default. Server 2.12.
        allow_msg_schedules: Obey `Nats-Schedule`: messages that are published later; not by default. For
            good. Server 2.12.
        persist_mode: What a publish acknowledgement means; by default that the operating system has the
            message. Cannot be changed later. Server 2.12.
        allow_batched: Accept batches that are acknowledged every few messages; not by default. Server 2.14.
        metadata: Names and values, none by default, at most 128 KiB in all. Keys that start with `_nats.`
            are the server's. Server 2.10.
    """

    _levels: ClassVar[Mapping[str, int]] = {
        "allow_msg_ttl": 1,
        "subject_delete_marker_ttl": 1,
        "allow_msg_counter": 2,
        "allow_atomic": 2,
        "allow_msg_schedules": 2,
        "persist_mode": 2,
        "allow_batched": 4,
    }

    name: str
    description: str | None = None
    subjects: list[str] = msgspec.field(default_factory=list)
    retention: RetentionPolicy | str = RetentionPolicy.LIMITS
    max_consumers: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age: Duration | None = None
    max_msgs_per_subject: int | None = None
    max_msg_size: Int32 | None = None
    discard: DiscardPolicy | str = DiscardPolicy.OLD
    storage: StorageType | str = StorageType.FILE
    num_replicas: int | None = None
    no_ack: bool = False
    duplicate_window: Duration | None = None
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = msgspec.field(default_factory=list)
    compression: StoreCompression | str = StoreCompression.NONE
    first_seq: UInt | None = None
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: StreamConsumerLimits | None = None
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: Duration | None = None
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode | str = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        check_name(self.name, self._argument("name"))
        self._check_limits()
        self._check_discard()
        self._check_features()
        self._check_origin()
        self._check_subjects()

    def _check_limits(self) -> None:
        if self.num_replicas is not None and not 0 <= self.num_replicas <= MAX_REPLICAS:
            self._refuse("num_replicas", f"is not from 1 to {MAX_REPLICAS}")
        age, window, marker = self.max_age, self.duplicate_window, self.subject_delete_marker_ttl
        if age is not None and age != 0 and age < 0.1:
            self._refuse("max_age", "is neither 0 nor at least 0.1 seconds")
        if window is not None and window != 0 and window < 0.1:
            self._refuse("duplicate_window", "is neither 0 nor at least 0.1 seconds")
        if age and window and window > age:
            self._refuse("duplicate_window", f"is longer than max_age={age!r}")
        if marker is not None and marker != 0 and marker < 1:
            self._refuse("subject_delete_marker_ttl", "is neither 0 nor at least 1 second")
        if self.description is not None and len(self.description.encode()) > MAX_DESCRIPTION_BYTES:
            self._refuse("description", f"is longer than {MAX_DESCRIPTION_BYTES} bytes")
        if sum(len(k.encode()) + len(v.encode()) for k, v in self.metadata.items()) > MAX_METADATA_BYTES:
            self._refuse("metadata", f"is larger than {MAX_METADATA_BYTES} bytes")
        if self.placement is not None and self.placement.preferred:
            self._refuse("placement", "has `preferred`, which only a leader step-down takes")

    def _check_discard(self) -> None:
        if self.discard_new_per_subject:
            if self.discard != DiscardPolicy.NEW:
                self._refuse("discard_new_per_subject", "needs discard='new'")
            if (self.max_msgs_per_subject or 0) <= 0:
                self._refuse("discard_new_per_subject", "needs max_msgs_per_subject of 1 or more")
        if self.discard == DiscardPolicy.NEW:
            self._refuse_any(("allow_msg_counter", "allow_msg_schedules"), "needs discard='old'")

    def _check_features(self) -> None:
        if self.deny_purge and self.allow_rollup_hdrs:
            self._refuse("allow_rollup_hdrs", "cannot work with deny_purge=True: a roll-up purges")
        if self.allow_msg_counter:
            if self.retention != RetentionPolicy.LIMITS:
                self._refuse("allow_msg_counter", "needs retention='limits'")
            self._refuse_any(("allow_msg_ttl", "allow_msg_schedules"), "excludes allow_msg_counter=True")
        if self.persist_mode == PersistMode.ASYNC:
            if self.storage != StorageType.FILE:
                self._refuse("persist_mode", "needs storage='file'")
            if (self.num_replicas or 1) > 1:
                self._refuse("persist_mode", "needs num_replicas=1")
            if self.allow_atomic:
                self._refuse("persist_mode", "excludes allow_atomic=True")

    def _check_origin(self) -> None:
        if self.mirror is not None:
            self._refuse_any(_NOT_ON_A_MIRROR, "is not possible on a mirror")
        elif self.mirror_direct:
            self._refuse("mirror_direct", "needs a mirror")
        if self.sources and self.allow_msg_schedules:
            self._refuse("allow_msg_schedules", "excludes sources")
        for source in self.sources:
            check_name(source.name, "StreamConfig.sources: StreamSource.name")

    def _check_subjects(self) -> None:
        for index, subject in enumerate(self.subjects):
            check_filter(subject, self._argument("subjects"))
            for other in self.subjects[:index]:
                if subjects_overlap(subject, other):
                    self._refuse("subjects", f"overlap: {other!r} and {subject!r}")
            if subject == ">" and not (self.no_ack and (self.num_replicas or 1) == 1):
                self._refuse("subjects", "with '>' need no_ack=True and num_replicas=1")
        if self.subject_transform is not None and self.subject_transform.src:
            check_filter(self.subject_transform.src, "StreamConfig.subject_transform: SubjectTransform.src")


_NOT_ON_A_MIRROR = (
    "subjects",
    "sources",
    "first_seq",
    "allow_msg_counter",
    "allow_atomic",
    "allow_batched",
    "allow_msg_schedules",
    "subject_delete_marker_ttl",
)
