"""Every option of `format("jetstream")`: its name, its field, its parser, and where it applies. Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, Final

from jetspark.spark.options.values import (
    one_of,
    parse_bucket,
    parse_consumer,
    parse_count,
    parse_domain,
    parse_duration,
    parse_flag,
    parse_header_columns,
    parse_host,
    parse_id_prefix,
    parse_keys,
    parse_position,
    parse_seconds,
    parse_stream_and_consumer,
    parse_streams,
    parse_subject,
    parse_subjects,
    parse_text,
    parse_times,
    parse_urls,
)

__all__ = ["API_NAMES", "BY_NAME", "OPTIONS", "Option", "Use", "option_use"]


class Use(enum.Flag):
    """Where an option applies."""

    BATCH = enum.auto()
    STREAM = enum.auto()
    READ = BATCH | STREAM
    WRITE = enum.auto()
    ALL = READ | WRITE


#: The names of the uses in Spark's API.
API_NAMES: Final = {Use.BATCH: "read", Use.STREAM: "readStream", Use.WRITE: "write and writeStream"}


@dataclasses.dataclass(frozen=True)
class Option:
    """One option."""

    name: str
    field: str
    parse: Callable[[str], Any]
    use: Use = Use.ALL
    of_connection: bool = False


#: A new option is one row here, and one field in `types`.
OPTIONS: Final = (
    Option("servers", "servers", parse_urls, of_connection=True),
    Option("credentialsFile", "credentials_file", parse_text, of_connection=True),
    Option("user", "user", parse_text, of_connection=True),
    Option("password", "password", parse_text, of_connection=True),
    Option("passwordFile", "password_file", parse_text, of_connection=True),
    Option("token", "token", parse_text, of_connection=True),
    Option("tokenFile", "token_file", parse_text, of_connection=True),
    Option("nkeySecretFile", "nkey_secret_file", parse_text, of_connection=True),
    Option("tlsCaFile", "tls_ca_file", parse_text, of_connection=True),
    Option("tlsCertFile", "tls_cert_file", parse_text, of_connection=True),
    Option("tlsKeyFile", "tls_key_file", parse_text, of_connection=True),
    Option("domain", "domain", parse_domain, of_connection=True),
    Option("apiPrefix", "api_prefix", parse_subject, of_connection=True),
    Option("inboxPrefix", "inbox_prefix", parse_subject, of_connection=True),
    Option("tlsHostname", "tls_hostname", parse_host, of_connection=True),
    Option("tlsHandshakeFirst", "tls_handshake_first", parse_flag, of_connection=True),
    Option("context", "context", parse_text, of_connection=True),
    Option("retrySeconds", "retry_seconds", parse_duration),
    Option("stream", "stream", parse_streams),
    Option("bucket", "bucket", parse_bucket),
    Option("keys", "keys", parse_keys, Use.READ),
    Option("includeHistory", "include_history", parse_flag, Use.BATCH),
    Option("objectStore", "object_store", parse_bucket, Use.BATCH),
    Option("subjects", "subjects", parse_subjects, Use.READ),
    Option("startingPosition", "starting_position", parse_position, Use.READ),
    Option("endingPosition", "ending_position", parse_position, Use.BATCH),
    Option("startingTimestamp", "starting_timestamp", parse_times, Use.READ),
    Option("endingTimestamp", "ending_timestamp", parse_times, Use.BATCH),
    Option("maxMessagesPerTrigger", "max_messages_per_trigger", parse_count, Use.STREAM),
    Option("maxBytesPerTrigger", "max_bytes_per_trigger", parse_count, Use.STREAM),
    Option("minMessagesPerTrigger", "min_messages_per_trigger", parse_count, Use.STREAM),
    Option("maxTriggerDelay", "max_trigger_delay", parse_duration, Use.STREAM),
    Option("minPartitions", "min_partitions", parse_count, Use.READ),
    Option("maxMessagesPerPartition", "max_messages_per_partition", parse_count, Use.READ),
    Option("failOnDataLoss", "fail_on_data_loss", parse_flag, Use.READ),
    Option("includeHeaders", "include_headers", parse_flag, Use.READ),
    Option("includeData", "include_data", parse_flag, Use.READ),
    Option("headerColumns", "header_columns", parse_header_columns, Use.READ),
    Option("progressConsumer", "progress_consumer", parse_consumer, Use.STREAM),
    Option("consumer", "consumer", parse_consumer, Use.STREAM),
    Option("allowNak", "allow_nak", parse_flag, Use.STREAM),
    Option("deadLetters", "dead_letters", parse_stream_and_consumer, Use.READ),
    Option("subject", "subject", parse_subject, Use.WRITE),
    Option("maxPending", "max_pending", parse_count, Use.WRITE),
    Option("publishMode", "publish_mode", one_of("async", "atomic"), Use.WRITE),
    Option("controlHeaders", "control_headers", one_of("strip", "keep"), Use.WRITE),
    Option("deadLetterSubject", "dead_letter_subject", parse_subject, Use.WRITE),
    Option("msgIdPrefix", "msg_id_prefix", parse_id_prefix, Use.WRITE),
    Option("minDuplicateWindow", "min_duplicate_window", parse_seconds, Use.WRITE),
)
#: By the lower-case name, which Spark passes.
BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}


def option_use(name: str) -> Use | None:
    """Where an option applies, whatever the case of its name; None for an unknown one."""
    option = BY_NAME.get(name.lower())
    return option.use if option else None
