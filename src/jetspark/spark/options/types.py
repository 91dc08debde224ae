"""The parsed options, as types: hashable and picklable, and their repr shows no secrets. Pure."""

from __future__ import annotations

import dataclasses
from typing import Final

from jetspark.core.servers import DEFAULT_URL
from jetspark.errors import UsageError
from jetspark.jetstream.retry import OUTAGE
from jetspark.spark.options.table import API_NAMES, BY_NAME, Use
from jetspark.spark.options.values import PositionOption, TimeOption

__all__ = ["BOUND_OPTIONS", "BUCKET_OPTIONS", "ConnectionOptions", "SourceOptions"]

#: Options that need the option bucket.
BUCKET_OPTIONS: Final = ("keys", "includeHistory")
#: Options that bound or divide the messages of a batch; they do not apply to current keys and objects.
BOUND_OPTIONS: Final = (
    *("startingPosition", "endingPosition", "startingTimestamp", "endingTimestamp"),
    *("minPartitions", "maxMessagesPerPartition"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to connect. Paths are resolved on the machine that connects."""

    servers: tuple[str, ...] = (DEFAULT_URL,)
    credentials_file: str | None = None
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    password_file: str | None = None
    token: str | None = dataclasses.field(default=None, repr=False)
    token_file: str | None = None
    nkey_secret_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    domain: str | None = None
    api_prefix: str | None = None
    inbox_prefix: str = "_INBOX"
    tls_hostname: str | None = None
    tls_handshake_first: bool = False
    #: A context of the `nats` CLI on the machine that connects, for settings that other options leave out.
    context: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What to read or write, and how."""

    connection: ConnectionOptions = ConnectionOptions()
    stream: tuple[str, ...] = ()
    #: A key-value bucket: `stream` is its stream then, and `subjects` are the `keys`.
    bucket: str | None = None
    keys: tuple[str, ...] = ()
    include_history: bool = False
    object_store: str | None = None
    subjects: tuple[str, ...] = ()
    starting_position: PositionOption | None = None
    ending_position: PositionOption | None = None
    starting_timestamp: TimeOption | None = None
    ending_timestamp: TimeOption | None = None
    max_messages_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_messages_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    min_partitions: int | None = None
    max_messages_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = True
    include_data: bool = True
    retry_seconds: float = OUTAGE
    #: Columns and the headers that they show.
    header_columns: tuple[tuple[str, str], ...] = ()
    progress_consumer: str | None = None
    consumer: str | None = None
    allow_nak: bool = False
    #: Stream and consumer.
    dead_letters: tuple[str, str] | None = None
    subject: str | None = None
    max_pending: int = 4096
    publish_mode: str = "async"
    control_headers: str = "strip"
    dead_letter_subject: str | None = None
    msg_id_prefix: str = ""
    min_duplicate_window: float = 120.0
    #: The names of the options that the user set, as the table spells them.
    given: tuple[str, ...] = ()
    #: Whether rows are inserted into a table of Spark's catalog.
    of_table: bool = False

    @property
    def reads_current(self) -> bool:
        """Whether a batch reads the current keys of a bucket, or the objects of a store."""
        return self.object_store is not None or (self.bucket is not None and not self.include_history)

    def check_read(self, use: Use) -> None:
        """Raise `UsageError` for options that do not apply to a read of a bucket, or to one of a stream."""
        if self.bucket is None and (alone := [name for name in self.given if name in BUCKET_OPTIONS]):
            raise UsageError(f"option {alone[0]} needs option bucket", hint="Add it, or remove this one")
        if use is Use.BATCH and self.reads_current:
            for name in self.given:
                if name in BOUND_OPTIONS:
                    raise UsageError(
                        f"option {name} applies to revisions, but the current keys are read",
                        hint="Add option includeHistory, or remove this one",
                    )

    def check_use(self, use: Use) -> None:
        """Raise `UsageError` for options that do not apply to a use."""
        for name in self.given:
            suits = BY_NAME[name.lower()].use
            if use not in suits:
                others = " and ".join(name for each, name in API_NAMES.items() if each in suits)
                raise UsageError(f"option {name} is for {others}, not for {API_NAMES[use]}", hint="Remove it")
