"""Options that exclude or need each other, or bound the same range. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from jetspark.core.options import ConnectOptions
from jetspark.errors import UsageError
from jetspark.jetstream.kv.names import stream_of
from jetspark.spark.options.table import OPTIONS
from jetspark.spark.options.types import BOUND_OPTIONS, BUCKET_OPTIONS, ConnectionOptions, SourceOptions
from jetspark.spark.options.values import stream_matches

__all__ = ["check_bounds", "check_connection", "check_exclusions", "with_bucket"]

#: Fields that `ConnectOptions` does not have, or that are validated already.
_NOT_CORE: Final = ("servers", "domain", "api_prefix", "context")

#: Options that do not apply to buckets.
_NOT_OF_BUCKETS: Final = (
    *("stream", "subjects", "subject", "includeHeaders", "headerColumns", "controlHeaders"),
    *("objectStore", "consumer", "includeData"),
)
#: For some options, those that they exclude, each with the reason; it is empty if it is obvious.
_EXCLUDED: Final[Mapping[str, Mapping[str, str]]] = {
    "bucket": {
        **dict.fromkeys(_NOT_OF_BUCKETS, ""),
        "subjects": "use option keys",
        "subject": "use a column key",
    },
    "objectStore": dict.fromkeys((*_NOT_OF_BUCKETS, *BUCKET_OPTIONS, *BOUND_OPTIONS), ""),
    "consumer": {
        "startingPosition": "the consumer determines which messages are delivered",
        "startingTimestamp": "the consumer determines which messages are delivered",
        "maxBytesPerTrigger": "a pull is limited by messages: use maxMessagesPerTrigger",
        "minMessagesPerTrigger": "a message that waits for others would be redelivered",
        "includeData": "a message must be read before it is acknowledged",
        "progressConsumer": "the consumer itself shows the lag",
    },
    # They are read from advisories, and their columns are fixed.
    "deadLetters": dict.fromkeys(
        (
            *("stream", "bucket", "objectStore", "subjects", "consumer", "allowNak", "progressConsumer"),
            *("includeHeaders", "headerColumns", "includeData"),
        ),
        "",
    ),
}


def check_connection(connection: ConnectionOptions) -> None:
    """Validate with the connection's own options, and translate their errors to the names of the table."""
    fields = {field: value for field, value in vars(connection).items() if field not in _NOT_CORE}
    nkey = fields.pop("nkey_secret_file")
    for name in ("password", "token"):
        if (path := fields.pop(f"{name}_file")) is not None:
            if fields[name] is not None:
                raise UsageError(f"{name} and {name}File exclude each other: choose one")
            fields[name] = path  # The content is read where the connection is made.
    try:
        ConnectOptions(nkey_seed_file=nkey, **fields)
    except UsageError as error:
        message = str(error.args[0]).replace("nkey_seed_file", "nkeySecretFile")
        for option in OPTIONS:
            message = message.replace(option.field, option.name) if option.of_connection else message
        raise UsageError(message, hint=error.hint) from None
    if connection.domain and connection.api_prefix:
        raise UsageError("domain and apiPrefix exclude each other: choose one")


def check_exclusions(options: SourceOptions) -> None:
    for name, excluded in _EXCLUDED.items():
        for other in options.given:
            if name in options.given and other in excluded and other != name:
                reason = f": {excluded[other]}" if excluded[other] else ""
                raise UsageError(
                    f"options {name} and {other} exclude each other{reason}", hint="Remove one of them"
                )
    columns = {column.lower() for column, _ in options.header_columns}
    if options.consumer is not None and "num_delivered" in columns:
        raise UsageError("option headerColumns: num_delivered is a column of option consumer")
    if not options.include_data and "size" in columns:
        raise UsageError("headerColumns names the column size, which includeData false adds")


def check_bounds(options: SourceOptions) -> None:
    """Check which messages are read, and how many at a time."""
    for bound in ("starting", "ending"):
        position = getattr(options, f"{bound}_position")
        if position is not None and getattr(options, f"{bound}_timestamp") is not None:
            raise UsageError(f"{bound}Position and {bound}Timestamp exclude each other: choose one")
        for kind in ("position", "timestamp"):
            by_stream = getattr(options, f"{bound}_{kind}")
            if isinstance(by_stream, tuple) and options.stream:
                unknown = [name for name, _ in by_stream if not stream_matches(name, options.stream)]
                if unknown:
                    raise UsageError(
                        f"option {bound}{kind.capitalize()} names {', '.join(unknown)}, "
                        "which option stream does not include"
                    )
    least, most = options.min_messages_per_trigger, options.max_messages_per_trigger
    if least and most and least > most:
        raise UsageError(f"minMessagesPerTrigger {least} is more than maxMessagesPerTrigger {most}")
    if "maxTriggerDelay" in options.given and least is None:
        raise UsageError("maxTriggerDelay needs minMessagesPerTrigger")
    start, end = options.starting_timestamp, options.ending_timestamp
    if isinstance(start, datetime) and isinstance(end, datetime) and start > end:
        raise UsageError(f"startingTimestamp {start.isoformat()} is after endingTimestamp {end.isoformat()}")


def with_bucket(options: SourceOptions) -> SourceOptions:
    """The options with the stream and the subjects of a bucket, if there is one."""
    if options.bucket is None:
        return options
    return dataclasses.replace(
        options,
        stream=(stream_of(options.bucket),),
        # A mirror has the subjects of its origin.
        subjects=tuple(f"$KV.*.{keys}" for keys in options.keys),
        include_headers=False,
    )
