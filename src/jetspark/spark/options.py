"""The options of `format("jetstream")`: one table, parsed and validated in one place. Pure.

Spark passes options as text, with lower-case names. The parsed options are typed, hashable and picklable, and
their repr shows no secrets.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final, TypeAlias

from jetspark.core.headers import header_block
from jetspark.core.options import ConnectOptions
from jetspark.core.servers import DEFAULT_URL, parse_servers
from jetspark.errors import UsageError
from jetspark.jetstream.kv.names import check_bucket, check_key_filter, stream_of
from jetspark.jetstream.publish.headers import check_msg_id
from jetspark.jetstream.retry import OUTAGE
from jetspark.wire.subjects import check_filter, check_name, check_subject, subjects_overlap

__all__ = [
    "ConnectionOptions",
    "PositionOption",
    "SourceOptions",
    "TimeOption",
    "Use",
    "option_use",
    "parse_options",
    "stream_matches",
]


class Use(enum.Flag):
    """Where an option applies."""

    BATCH = enum.auto()
    STREAM = enum.auto()
    READ = BATCH | STREAM
    WRITE = enum.auto()
    ALL = READ | WRITE


#: The names of the uses in Spark's API.
_API_NAMES: Final = {Use.BATCH: "read", Use.STREAM: "readStream", Use.WRITE: "write and writeStream"}

#: `earliest`, `latest`, or sequences by stream.
PositionOption: TypeAlias = str | tuple[tuple[str, int], ...]
#: One time, or times by stream.
TimeOption: TypeAlias = datetime | tuple[tuple[str, datetime], ...]


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
    #: A context of the `nats` CLI, on the machine that connects, for what the other options do not say.
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
        if self.bucket is None and (alone := [name for name in self.given if name in _OF_BUCKETS]):
            raise UsageError(f"option {alone[0]} needs option bucket", hint="Add it, or remove this one")
        if use is Use.BATCH and self.reads_current:
            for name in self.given:
                if name in _OF_REVISIONS:
                    raise UsageError(
                        f"option {name} is for revisions, and the current keys are read",
                        hint="Add option includeHistory, or remove it",
                    )

    def check_use(self, use: Use) -> None:
        """Raise `UsageError` for options that do not apply to a use."""
        for name in self.given:
            suits = _BY_NAME[name.lower()].use
            if use not in suits:
                others = " and ".join(name for each, name in _API_NAMES.items() if each in suits)
                raise UsageError(
                    f"option {name} is for {others}, not for {_API_NAMES[use]}", hint="Remove it"
                )


# --- parsers of an option's text; a `ValueError` says what is accepted


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("non-empty text")
    return text.strip()


def _host(text: str) -> str:
    host = text.strip()
    try:
        valid = bool(host.encode("idna")) and not any(ord(character) <= 32 for character in host)
    except UnicodeError:
        valid = False
    if not valid:
        raise ValueError("a host name")
    return host


def _listed(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts) or len(set(parts)) != len(parts):
        raise ValueError("one name, or several separated by commas, each once")
    return parts


def _streams(text: str) -> tuple[str, ...]:
    names = _listed(text)
    for name in names:
        check_name(name.replace("*", "x"), "stream")
    return names


def _subjects(text: str) -> tuple[str, ...]:
    subjects = _listed(text)
    for index, subject in enumerate(subjects):
        check_filter(subject)
        for other in subjects[:index]:
            if subjects_overlap(subject, other):
                raise ValueError(f"filters that do not overlap; {other!r} and {subject!r} do")
    return subjects


def _bucket(text: str) -> str:
    return check_bucket(text.strip())


def _keys(text: str) -> tuple[str, ...]:
    keys = _listed(text)
    for each in keys:
        check_key_filter(each, "keys")
    _subjects(text)
    return keys


def _servers(text: str) -> tuple[str, ...]:
    urls = _listed(text)
    for server in parse_servers(urls):
        if server.user is not None or server.password is not None:
            raise UsageError(
                "servers must not contain a user, password or token: Spark shows it in plans and event logs",
                hint="Use the options credentialsFile, user and passwordFile, or tokenFile",
            )
    return urls


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("a whole number of at least 1")
    return number


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def _header_columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in _listed(text):
        column, _, header = (each.strip() for each in part.partition("="))
        pairs.append((column, header or column))
        header_block({header or column: ""})
        if not column or column.lower() in _FIXED_COLUMNS:
            raise ValueError(f"names for other columns than {', '.join(_FIXED_COLUMNS)}: host=Log-Host")
    if len({column.lower() for column, _ in pairs}) != len(pairs):
        raise ValueError("columns that are each named once")
    return tuple(pairs)


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("an ISO 8601 time, such as 2026-01-31T12:00:00Z") from None
    # The default time zone is UTC, not the local one: driver and executors may differ.
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _times(text: str) -> TimeOption:
    if not text.lstrip().startswith("{"):
        return _time(text)
    try:
        times = json.loads(text)
    except (ValueError, RecursionError):
        times = None
    if not isinstance(times, dict) or not times or not all(isinstance(time, str) for time in times.values()):
        raise ValueError('an ISO 8601 time, or times by stream: {"ORDERS": "2026-01-31T12:00:00Z"}')
    return tuple(sorted((check_name(stream, "stream"), _time(time)) for stream, time in times.items()))


def _position(text: str) -> PositionOption:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    try:
        sequences = json.loads(text)
    except (ValueError, RecursionError):
        sequences = None
    if not isinstance(sequences, dict) or not sequences:
        raise ValueError('earliest, latest, or sequences by stream: {"ORDERS": 1234}')
    for stream, sequence in sequences.items():
        check_name(stream, "stream")
        if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 1:
            raise ValueError(f"a sequence of at least 1 for {stream!r}")
    return tuple(sorted(sequences.items()))


def _name(text: str) -> str:
    return check_name(text.strip(), "consumer")


def _stream_and_consumer(text: str) -> tuple[str, str]:
    stream, slash, consumer = text.strip().partition("/")
    if not slash:
        raise ValueError("STREAM/CONSUMER")
    return check_name(stream, "stream"), check_name(consumer, "consumer")


def _subject(text: str) -> str:
    check_subject(text.strip())
    return text.strip()


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(" or ".join(words))
        return text.strip().lower()

    return parse


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError("seconds, 0 or more")
    return seconds


def _duration(text: str) -> float:
    """Seconds, or a number with a unit, as Spark writes it: 90, 30s, 5m, 1h, 500ms."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("a duration, such as 30s, 5m or 1h")
    return seconds


def _id_prefix(text: str) -> str:
    return check_msg_id("a prefix", text.strip())


@dataclasses.dataclass(frozen=True)
class _Option:
    name: str
    field: str
    parse: Callable[[str], Any]
    use: Use = Use.ALL
    of_connection: bool = False


_TABLE: Final = (
    _Option("servers", "servers", _servers, of_connection=True),
    _Option("credentialsFile", "credentials_file", _text, of_connection=True),
    _Option("user", "user", _text, of_connection=True),
    _Option("password", "password", _text, of_connection=True),
    _Option("passwordFile", "password_file", _text, of_connection=True),
    _Option("token", "token", _text, of_connection=True),
    _Option("tokenFile", "token_file", _text, of_connection=True),
    _Option("nkeySecretFile", "nkey_secret_file", _text, of_connection=True),
    _Option("tlsCaFile", "tls_ca_file", _text, of_connection=True),
    _Option("tlsCertFile", "tls_cert_file", _text, of_connection=True),
    _Option("tlsKeyFile", "tls_key_file", _text, of_connection=True),
    _Option("domain", "domain", _name, of_connection=True),
    _Option("apiPrefix", "api_prefix", _subject, of_connection=True),
    _Option("inboxPrefix", "inbox_prefix", _subject, of_connection=True),
    _Option("tlsHostname", "tls_hostname", _host, of_connection=True),
    _Option("tlsHandshakeFirst", "tls_handshake_first", _flag, of_connection=True),
    _Option("context", "context", _text, of_connection=True),
    _Option("retrySeconds", "retry_seconds", _duration),
    _Option("stream", "stream", _streams),
    _Option("bucket", "bucket", _bucket),
    _Option("keys", "keys", _keys, Use.READ),
    _Option("includeHistory", "include_history", _flag, Use.BATCH),
    _Option("objectStore", "object_store", _bucket, Use.BATCH),
    _Option("subjects", "subjects", _subjects, Use.READ),
    _Option("startingPosition", "starting_position", _position, Use.READ),
    _Option("endingPosition", "ending_position", _position, Use.BATCH),
    _Option("startingTimestamp", "starting_timestamp", _times, Use.READ),
    _Option("endingTimestamp", "ending_timestamp", _times, Use.BATCH),
    _Option("maxMessagesPerTrigger", "max_messages_per_trigger", _count, Use.STREAM),
    _Option("maxBytesPerTrigger", "max_bytes_per_trigger", _count, Use.STREAM),
    _Option("minMessagesPerTrigger", "min_messages_per_trigger", _count, Use.STREAM),
    _Option("maxTriggerDelay", "max_trigger_delay", _duration, Use.STREAM),
    _Option("minPartitions", "min_partitions", _count, Use.READ),
    _Option("maxMessagesPerPartition", "max_messages_per_partition", _count, Use.READ),
    _Option("failOnDataLoss", "fail_on_data_loss", _flag, Use.READ),
    _Option("includeHeaders", "include_headers", _flag, Use.READ),
    _Option("includeData", "include_data", _flag, Use.READ),
    _Option("headerColumns", "header_columns", _header_columns, Use.READ),
    _Option("progressConsumer", "progress_consumer", _name, Use.STREAM),
    _Option("consumer", "consumer", _name, Use.STREAM),
    _Option("allowNak", "allow_nak", _flag, Use.STREAM),
    _Option("deadLetters", "dead_letters", _stream_and_consumer, Use.READ),
    _Option("subject", "subject", _subject, Use.WRITE),
    _Option("maxPending", "max_pending", _count, Use.WRITE),
    _Option("publishMode", "publish_mode", _one_of("async", "atomic"), Use.WRITE),
    _Option("controlHeaders", "control_headers", _one_of("strip", "keep"), Use.WRITE),
    _Option("deadLetterSubject", "dead_letter_subject", _subject, Use.WRITE),
    _Option("msgIdPrefix", "msg_id_prefix", _id_prefix, Use.WRITE),
    _Option("minDuplicateWindow", "min_duplicate_window", _seconds, Use.WRITE),
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BY_NAME: Final = {option.name.lower(): option for option in _TABLE}
#: Options that buckets replace, and those that need one.
_NOT_OF_BUCKETS: Final = (
    *("stream", "subjects", "subject", "includeHeaders", "headerColumns", "controlHeaders"),
    *("objectStore", "consumer", "includeData"),
)
_OF_BUCKETS: Final = ("keys", "includeHistory")
#: Options of a batch that say which messages; there are no such bounds for current keys and objects.
_OF_REVISIONS: Final = (
    *("startingPosition", "endingPosition", "startingTimestamp", "endingTimestamp"),
    *("minPartitions", "maxMessagesPerPartition"),
)
_INSTEAD: Final = {"subjects": "Use option keys", "subject": "Use a column key"}
#: Options of `writeStream` itself, which Spark passes on.
_OF_SPARK: Final = ("checkpointlocation", "queryname")
_FIXED_COLUMNS: Final = ("subject", "data", "headers", "stream", "sequence", "timestamp")
#: Not shown in errors. A URL may contain a password, though it should not.
_SECRETS: Final = ("password", "token", "servers")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options. Raises `UsageError`, which names the option and what it accepts."""
    values: dict[str, Any] = {}
    connection: dict[str, Any] = {}
    given: list[str] = []
    for key, text in options.items():
        option = _BY_NAME.get(key.lower())
        if key.lower() in _OF_SPARK:
            continue
        if option is None:
            raise _unknown(key)
        given.append(option.name)
        (connection if option.of_connection else values)[option.field] = _parse(option, text)
    parsed = SourceOptions(connection=ConnectionOptions(**connection), given=tuple(sorted(given)), **values)
    _check_connection(parsed.connection)
    parsed = _with_bucket(parsed)
    _check_bounds(parsed)
    if parsed.consumer is not None:
        _check_consumer(parsed)
    if parsed.dead_letters is not None:
        _check_dead_letters(parsed)
    return parsed


def option_use(name: str) -> Use | None:
    """Where an option applies, whatever the case of its name; None for an unknown one."""
    option = _BY_NAME.get(name.lower())
    return option.use if option else None


def _with_bucket(options: SourceOptions) -> SourceOptions:
    """The options with the stream and the subjects of a bucket."""
    if options.bucket is not None:
        _refuse_beside("bucket", options, _NOT_OF_BUCKETS)
    if options.object_store is not None:
        _refuse_beside("objectStore", options, (*_NOT_OF_BUCKETS, *_OF_BUCKETS, *_OF_REVISIONS))
    if options.bucket is None:
        return options
    return dataclasses.replace(
        options,
        stream=(stream_of(options.bucket),),
        # A mirror has the subjects of its origin.
        subjects=tuple(f"$KV.*.{keys}" for keys in options.keys),
        include_headers=False,
    )


def _refuse_beside(kind: str, options: SourceOptions, excluded: tuple[str, ...]) -> None:
    for name in options.given:
        if name in excluded and name != kind:
            hint = _INSTEAD.get(name, "Remove one of them")
            raise UsageError(f"option {name} and option {kind} exclude each other", hint=hint)


def _parse(option: _Option, text: str) -> object:
    try:
        return option.parse(text)
    except UsageError as error:
        raise UsageError(f"option {option.name}: {error.args[0]}", hint=error.hint) from None
    except ValueError as error:
        shown = "" if option.name in _SECRETS else f", not {text!r}"
        raise UsageError(f"option {option.name} must be {error}{shown}") from None


def _unknown(key: str) -> UsageError:
    if key.lower() == "path":
        return UsageError("load() takes no path", hint='Name the stream: .option("stream", "ORDERS").load()')
    near = difflib.get_close_matches(key.lower(), _BY_NAME, n=1)
    suggestion = f"Did you mean {_BY_NAME[near[0]].name}? " if near else ""
    names = ", ".join(option.name for option in _TABLE)
    return UsageError(f"unknown option {key!r}", hint=f"{suggestion}The options are: {names}")


def _check_connection(connection: ConnectionOptions) -> None:
    """Validate with the connection's own options, and translate their errors to the names of this table."""
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
        for option in _TABLE:
            message = message.replace(option.field, option.name) if option.of_connection else message
        raise UsageError(message, hint=error.hint) from None
    if connection.domain and connection.api_prefix:
        raise UsageError("domain and apiPrefix exclude each other: choose one")


_NOT_CORE: Final = ("servers", "domain", "api_prefix", "context")


def _check_bounds(options: SourceOptions) -> None:
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
    if not options.include_data and "size" in (column.lower() for column, _ in options.header_columns):
        raise UsageError("headerColumns names the column size, which includeData false adds")
    least, most = options.min_messages_per_trigger, options.max_messages_per_trigger
    if least and most and least > most:
        raise UsageError(f"minMessagesPerTrigger {least} is more than maxMessagesPerTrigger {most}")
    if "maxTriggerDelay" in options.given and least is None:
        raise UsageError("maxTriggerDelay needs minMessagesPerTrigger")
    start, end = options.starting_timestamp, options.ending_timestamp
    if isinstance(start, datetime) and isinstance(end, datetime) and start > end:
        raise UsageError(f"startingTimestamp {start.isoformat()} is after endingTimestamp {end.isoformat()}")


#: Options that say what a consumer decides, or that a query with one has no use for.
_NOT_WITH_CONSUMER: Final = {
    "startingPosition": "the consumer knows what is to be delivered",
    "startingTimestamp": "the consumer knows what is to be delivered",
    "maxBytesPerTrigger": "a consumer is asked for messages: use maxMessagesPerTrigger",
    "minMessagesPerTrigger": "a message that waits for others would be delivered again",
    "includeData": "what is acknowledged should have been read",
    "progressConsumer": "the consumer itself shows the lag",
}


def _check_consumer(options: SourceOptions) -> None:
    for name, reason in _NOT_WITH_CONSUMER.items():
        if name in options.given:
            raise UsageError(f"options consumer and {name} exclude each other: {reason}", hint="Remove one")
    if any(column.lower() == "num_delivered" for column, _ in options.header_columns):
        raise UsageError("option headerColumns: num_delivered is a column of option consumer")


#: Options that a table of dead letters has no use for: it reads advisories, and its columns are fixed.
_NOT_WITH_DEAD_LETTERS: Final = (
    *("stream", "subjects", "consumer", "allowNak", "progressConsumer"),
    *("includeHeaders", "headerColumns"),
)


def _check_dead_letters(options: SourceOptions) -> None:
    for name in _NOT_WITH_DEAD_LETTERS:
        if name in options.given:
            raise UsageError(f"options deadLetters and {name} exclude each other", hint="Remove one")


def stream_matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a stream has one of these names, or matches one of these patterns with `*`."""
    return any(fnmatchcase(name, _only_stars(pattern)) for pattern in patterns)


@cache
def _only_stars(pattern: str) -> str:
    """A pattern of fnmatch, which knows `?` and `[` too, in which only `*` is special."""
    return re.sub(r"([?\[])", r"[\1]", pattern)
