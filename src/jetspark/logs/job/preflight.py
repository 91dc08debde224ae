"""A look at the server before Spark starts: what is missing is told at once, and not by a task."""

from __future__ import annotations

import dataclasses
from typing import Final

from jetspark.jetstream.model.stream import RetentionPolicy
from jetspark.jetstream.read.lookup import stream_names
from jetspark.jetstream.read.ranges import stream_info
from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import Where
from jetspark.logs.job.sinks.messages import Target
from jetspark.spark.connections import ProcessConnection, process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.read.streams import find_streams

__all__ = ["Targets", "look"]

#: Seconds in which a server must be found.
_PATIENCE: Final = 5.0
#: What headers may take of a message: an id and a few names, and what else a dead letter has.
_HEADERS: Final = {"sink.subject": 2 * 1024, "dead_letters.subject": 16 * 1024}


@dataclasses.dataclass(frozen=True)
class Targets:
    """Where messages of the job go, as far as it publishes any."""

    sink: Target | None
    dead_letters: Target | None


def look(config: Config, where: Where) -> Targets:
    """Raises `ConnectionError`, `StreamNotFound`, `UsageError` for a subject that cannot be written to."""
    options = parse_options(config.source_options())
    connection = process_connection(options.connection, retry_for=_PATIENCE)
    sources = set(connection.run(find_streams(connection.js, options.stream)))
    finder = _Finder(connection, config, where, sources)
    sink = finder.find("sink.subject", config.sink.subject)
    return Targets(sink, finder.find("dead_letters.subject", config.dead_letters.subject))


@dataclasses.dataclass(frozen=True)
class _Finder:
    """Finds the streams of subjects to write to."""

    connection: ProcessConnection
    config: Config
    where: Where
    sources: set[str]

    def find(self, key: str, subject: str | None) -> Target | None:
        if subject is None:
            return None
        connection = self.connection
        names = connection.run(stream_names(connection.js.api, subject))
        if not names:
            raise self.where.error(
                key,
                f"no stream stores {subject!r}",
                f"`jetspark stream add NAME --subjects {subject}` makes one",
            )
        if names[0] in self.sources and not self.config.source.subjects:
            raise self.where.error(
                key,
                f"{subject!r} is stored by {names[0]}, which is read: it would never end",
                "Choose another stream for it, or narrow source.subjects",
            )
        stream = connection.run(stream_info(connection.js.api, names[0])).config
        limit = connection.js.connection.max_payload
        if stream.max_msg_size is not None and stream.max_msg_size >= 0:
            limit = min(limit, stream.max_msg_size)
        if limit < 2 * _HEADERS[key]:
            raise self.where.error(
                key,
                f"{names[0]} takes messages of {limit} bytes at most, and {2 * _HEADERS[key]} are needed",
                f"Raise it, `jetspark stream edit {names[0]} --max-msg-size`, or the server's max_payload",
            )
        # Others cannot be read without disturbing their consumers.
        readable = stream.retention == RetentionPolicy.LIMITS
        most_bytes = limit - _HEADERS[key]
        return Target(self.config, subject, names[0], readable=readable, most_bytes=most_bytes)
