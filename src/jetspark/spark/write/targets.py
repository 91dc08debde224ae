"""The streams that rows are written to: found by subject, and validated before the first row is sent."""

from __future__ import annotations

from typing import Final

from jetspark.errors import UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.read.listing import stream_names
from jetspark.jetstream.read.ranges import stream_info
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.wire.subjects import subject_matches

__all__ = ["TargetStreams"]

#: Subjects to cache. A full cache is cleared; subjects are then matched against the known streams again.
_CACHED: Final = 10_000


class TargetStreams:
    """The streams that a task has found so far."""

    def __init__(self, js: JetStream, options: SourceOptions) -> None:
        self._js = js
        self._options = options
        self._subjects: dict[str, str] = {}
        # The subjects of each stream, as configured.
        self._patterns: dict[str, list[str]] = {}

    def stream_of(self, subject: str) -> str | None:
        """The stream that stores a subject, if it is known already."""
        stream = self._subjects.get(subject)
        if stream is None:
            for name, patterns in self._patterns.items():
                if any(subject_matches(each, subject) for each in patterns):
                    self._cache(subject, name)
                    return name
        return stream

    def _cache(self, subject: str, stream: str) -> None:
        if len(self._subjects) >= _CACHED:
            self._subjects.clear()
        self._subjects[subject] = stream

    async def find(self, subject: str, place: str = "option subject") -> None:
        """Find the stream of a subject from `place`. Raises `UsageError` if it is missing or unsuitable."""
        names = await stream_names(self._js.api, subject)
        wanted = self._options.stream[0] if self._options.stream else None
        is_dead = subject == self._options.dead_letter_subject
        if is_dead:
            place, wanted = "option deadLetterSubject", None
        elif self._options.bucket is not None and wanted not in names:
            raise UsageError(
                f"option bucket: no bucket {self._options.bucket!r} to write to",
                hint="Create it with js.create_key_value(...), or check `bucket`, `domain` and the account; "
                "a mirror takes no writes",
            )
        if not names:
            raise UsageError(
                f"{place}: no stream stores {subject!r}",
                hint=f"Create one with subjects=[{subject!r}], or check `domain` and the account",
            )
        if wanted is not None and wanted not in names:
            raise UsageError(
                f"{place}: {subject!r} is stored by stream {', '.join(names)}, not by {wanted}",
                hint="Fix the `stream` option or the subject",
            )
        for name in names:
            if name not in self._patterns and not is_dead:
                await self._check(name)
        self._cache(subject, wanted or names[0])

    async def _check(self, name: str) -> None:
        config = (await stream_info(self._js.api, name)).config
        options = self._options
        if options.publish_mode == "atomic" and not config.allow_atomic:
            raise UsageError(
                f"stream {name} does not accept atomic batches",
                hint="Update it with allow_atomic=True (nats-server 2.12 or later), or omit publishMode",
            )
        window, wanted = config.duplicate_window or 0.0, options.min_duplicate_window
        if window < wanted:
            problem = (
                f"stream {name} forgets message ids after {window:g} s, minDuplicateWindow is {wanted:g}: "
                "rows that are written again after that are stored twice"
            )
            hint = f"Update the stream with duplicate_window={wanted:g}"
            if "minDuplicateWindow" in options.given:
                raise UsageError(problem, hint=f"{hint}, or lower minDuplicateWindow")
            logger.warning("%s. %s", problem, hint)
        self._patterns[name] = config.subjects
