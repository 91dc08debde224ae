"""A look at the server before Spark starts: what is missing is told at once, and not by a task."""

from __future__ import annotations

import dataclasses
from typing import Final

from jetspark.jetstream.patience import patiently
from jetspark.jetstream.ranges import reads_direct, stream_info
from jetspark.shipper.pipeline.config import Config
from jetspark.shipper.pipeline.config_file import Where
from jetspark.shipper.pipeline.targets import Target
from jetspark.spark.catalog import find_streams
from jetspark.spark.connections import Link, link_to
from jetspark.spark.options import parse_options

__all__ = ["Targets", "look"]

#: Seconds in which a server must be found.
_PATIENCE: Final = 5.0
#: What headers may take of a message.
_HEADERS: Final = 16 * 1024


@dataclasses.dataclass(frozen=True)
class Targets:
    """Where messages of the job go, as far as it publishes any."""

    sink: Target | None
    dead_letters: Target | None
    #: The largest payload that goes with headers.
    most_bytes: int


def look(config: Config, where: Where) -> Targets:
    """Raises `NoServersError`, `StreamNotFound`, and `UsageError` for a subject that cannot be written to."""
    options = parse_options(config.source_options())
    link = link_to(options.connection, patience=_PATIENCE)
    sources = set(link.run(find_streams(link.js, options.stream)))
    finder = _Finder(link, config, where, sources)
    sink = finder.find("sink.subject", config.sink.subject)
    letters = finder.find("dead_letters.subject", config.dead_letters.subject)
    limit = link.js.connection.max_payload
    return Targets(sink, letters, max(limit - _HEADERS, limit // 2))


@dataclasses.dataclass(frozen=True)
class _Finder:
    """Finds the streams of subjects to write to."""

    link: Link
    config: Config
    where: Where
    sources: set[str]

    def find(self, key: str, subject: str | None) -> Target | None:
        if subject is None:
            return None
        link = self.link
        names = link.run(patiently(lambda: _names(link, subject)))
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
        info = link.run(stream_info(link.js, names[0]))
        return Target(self.config, subject, names[0], readable=not reads_direct(info.config))


async def _names(link: Link, subject: str) -> list[str]:
    return [name async for name in link.js.stream_names(subject)]
