"""The source `jetstream`: the keys of `[source]`, their checks, and the options of `format("jetstream")`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from jetspark.errors import DataLoss, MessageNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.retry import OUTAGE
from jetspark.jetstream.stream import Stream
from jetspark.logs.job.config import Place, Section, SourceSection
from jetspark.logs.toml_lines import Where
from jetspark.spark.connections import process_connection
from jetspark.spark.options import SourceOptions, Use, parse_options
from jetspark.spark.read.data_loss import report_loss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["JetStreamSource"]

#: The key of each option that an error may name, the more specific first.
_OPTION_KEYS: Final = {
    "startingPosition": "start",
    "startingTimestamp": "start",
    "maxMessagesPerTrigger": "max_messages_per_trigger",
    "minPartitions": "min_partitions",
    "progressConsumer": "progress_consumer",
    "subjects": "subjects",
    "servers": "servers",
    "credentialsFile": "credentials_file",
    "nkeySecretFile": "nkey_file",
    "passwordFile": "password_file",
    "password": "password_file",
    "tokenFile": "token_file",
    "token": "token_file",
    "user": "user",
    "tlsCertFile": "tls_cert_file",
    "tlsKeyFile": "tls_key_file",
    "domain": "domain",
    "apiPrefix": "api_prefix",
    "inboxPrefix": "inbox_prefix",
    "stream": "stream",
}


class JetStreamSource(Section, SourceSection, frozen=True):
    """Streams to read, and how to connect. Secrets are in files."""

    stream: str | list[str]
    format: str = "jetstream"
    servers: str | list[str] | None = None
    subjects: list[str] = []  # noqa: RUF012 - a field of msgspec
    start: str | dict[str, int] = "earliest"
    max_messages_per_trigger: int = 500_000
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    progress_consumer: str | None = None
    #: Decompressing passes every line through Python.
    compressed: bool = False
    credentials_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    nkey_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    domain: str | None = None
    api_prefix: str | None = None
    inbox_prefix: str | None = None

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        paths = {name: getattr(self, name) for name in _FILES}
        changes = {name: resolve(path) for name, path in paths.items() if path is not None}
        return msgspec.structs.replace(self, **changes)

    def with_servers(self, given: str | None, default: str | None) -> Self:
        servers = given or (default if self.servers is None else None)
        return self if servers is None else msgspec.structs.replace(self, servers=servers)

    def check(self, where: Where) -> None:
        for name in _FILES:
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise where.error(f"source.{name}", f"file {path} not found")
            if name in _SECRETS and path is not None and not Path(path).read_bytes().strip():
                raise where.error(f"source.{name}", f"file {path} is empty")
        if self.user is not None and self.password_file is None:
            raise where.error("source.password_file", "is missing: source.user needs a password")
        try:
            parse_options(self.options()).check_use(Use.STREAM)
        except UsageError as error:
            message = str(error.args[0])
            for option, key in _OPTION_KEYS.items():
                if re.search(rf"\b{option}\b", message):
                    what = re.sub(rf"^option {option}:? ", "", message)
                    raise where.error(f"source.{key}", what, error.hint) from None
            raise where.error("source", message, error.hint) from None

    def read(self, spark: SparkSession, headers: Mapping[str, str]) -> DataFrame:
        options = {**self.options(), **_header_options(headers)}
        return spark.readStream.format("jetstream").options(**options).load()

    def read_first(self, spark: SparkSession, headers: Mapping[str, str], count: int) -> DataFrame:
        options = {**self.options(), **_header_options(headers)}
        given = {name: text for name, text in options.items() if name not in _OF_QUERIES}
        return spark.read.format("jetstream").options(**given).load().limit(count)

    def read_again(
        self, spark: SparkSession, headers: Mapping[str, str], places: Iterable[Place]
    ) -> DataFrame:
        import pyarrow as pa  # noqa: PLC0415 - an extra

        from jetspark.arrow import SCHEMA_WITHOUT_HEADERS  # noqa: PLC0415 - loads pyarrow
        from jetspark.spark.schema import read_schema  # noqa: PLC0415 - loads Spark

        options = parse_options({**self.options(), **_header_options(headers)})
        with process_connection(options.connection, retry_for=OUTAGE) as connection:
            found = connection.run(_get(connection.js, places, options))
        columns: dict[str, list[object]] = {
            "subject": [_text(message.subject) for _, message in found],
            "data": [message.data for _, message in found],
            "stream": [place.stream for place, _ in found],
            "sequence": [place.sequence for place, _ in found],
            "timestamp": [place.time for place, _ in found],
        }
        types = [*SCHEMA_WITHOUT_HEADERS, *(pa.field(column, pa.string()) for column in headers)]
        for column, header in headers.items():
            columns[column] = [_text(message.headers.get(header)) for _, message in found]
        # Spark makes rows of an Arrow table without a Python process; one task keeps their order.
        return spark.createDataFrame(pa.table(columns, pa.schema(types)), read_schema(options)).coalesce(1)

    def options(self) -> dict[str, str]:
        start = self.start
        options: dict[str, Any] = {
            **self.connection_options(),
            "stream": _joined(self.stream),
            "subjects": ",".join(self.subjects) or None,
            "maxMessagesPerTrigger": self.max_messages_per_trigger,
            "minPartitions": self.min_partitions,
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            "progressConsumer": self.progress_consumer,
        }
        if isinstance(start, dict):
            options["startingPosition"] = msgspec.json.encode(start).decode()
        elif start in ("earliest", "latest"):
            options["startingPosition"] = start
        else:
            options["startingTimestamp"] = start
        return {key: str(value) for key, value in options.items() if value is not None}

    def connection_options(self) -> dict[str, str]:
        options = {
            "servers": None if self.servers is None else _joined(self.servers),
            "credentialsFile": self.credentials_file,
            "user": self.user,
            "passwordFile": self.password_file,
            "tokenFile": self.token_file,
            "nkeySecretFile": self.nkey_file,
            "tlsCaFile": self.tls_ca_file,
            "tlsCertFile": self.tls_cert_file,
            "tlsKeyFile": self.tls_key_file,
            "domain": self.domain,
            "apiPrefix": self.api_prefix,
            "inboxPrefix": self.inbox_prefix,
        }
        return {key: value for key, value in options.items() if value is not None}


#: Keys whose value is a path.
_FILES: Final = tuple(name for name in JetStreamSource.__struct_fields__ if name.endswith("_file"))
#: Options that a batch read does not have.
_OF_QUERIES: Final = ("maxMessagesPerTrigger", "progressConsumer")
_SECRETS: Final = ("password_file", "token_file")


def _header_options(headers: Mapping[str, str]) -> dict[str, str]:
    columns = ",".join(f"{column}={header}" for column, header in headers.items())
    return {"includeHeaders": "false", "headerColumns": columns}


async def _get(
    js: JetStream, places: Iterable[Place], options: SourceOptions
) -> list[tuple[Place, StoredMessage]]:
    """The messages that still exist; reports the loss of others."""
    streams: dict[str, Stream] = {}

    async def get(place: Place) -> StoredMessage | None:
        try:
            message = await streams[place.stream].get_message(place.sequence)
        except MessageNotFound:
            return None
        return message if message.timestamp == place.time else None

    places = list(places)
    for name in {place.stream for place in places}:
        streams[name] = await js.get_stream(name)
    found = list(zip(places, await concurrently(get, places), strict=True))
    for place, message in found:
        if message is None:
            stream, first = place.stream, place.sequence
            lost = DataLoss(stream=stream, first_seq=first, next_seq=first + 1, cause="deleted meanwhile")
            report_loss(lost, options)
    return [(place, message) for place, message in found if message is not None]


def _text(value: str | None) -> str | None:
    return None if value is None else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _joined(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)
