"""Checks against the server before Spark starts, so that errors appear at once and not inside a task."""

from __future__ import annotations

import dataclasses
from typing import Final

from jetspark.logs.job.config import Config, SinkWriter
from jetspark.logs.job.dead_letters import HEADER_BYTES
from jetspark.logs.job.target import MessageTarget, TargetFinder
from jetspark.logs.toml_lines import Where
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.read.streams import find_streams

__all__ = ["Outputs", "check_server", "check_source"]

#: Seconds to wait for a server.
_CONNECT_TIMEOUT: Final = 5.0


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Where the job writes."""

    sink: SinkWriter
    #: None: lines that do not parse are dropped.
    dead_letters: MessageTarget | None


def check_server(config: Config, where: Where) -> Outputs:
    """Look up the streams of the job. Raises `ConnectionError`, `StreamNotFound` and `UsageError`."""
    options = parse_options(config.source.options())
    with process_connection(options.connection, retry_for=_CONNECT_TIMEOUT) as connection:
        streams = set(connection.run(find_streams(connection.js, options.stream)))
        if config.source.subjects:
            streams.clear()  # `check_target` compared the subjects.
        finder = TargetFinder(connection, config.source.connection_options(), streams, where)
        sink = config.sink.open(config, where, finder)
        subject = config.dead_letters.subject
        letters = None if subject is None else finder.find("dead_letters.subject", subject, HEADER_BYTES)
        return Outputs(sink, letters)


def check_source(config: Config) -> None:
    """Look up the streams that the job reads. Raises `ConnectionError` and `StreamNotFound`."""
    options = parse_options(config.source.options())
    with process_connection(options.connection, retry_for=_CONNECT_TIMEOUT) as connection:
        connection.run(find_streams(connection.js, options.stream))
