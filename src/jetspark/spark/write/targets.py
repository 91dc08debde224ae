"""The streams that rows are written to: found by subject, and checked before anything is sent there."""

from __future__ import annotations

from typing import Final

from jetspark.errors import UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.read.ranges import stream_info
from jetspark.jetstream.retry import retry
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.wire.subjects import subject_matches

__all__ = ["TargetStreams"]

#: How many subjects are remembered; beyond that they are compared with the streams again.
_REMEMBERED: Final = 10_000


class TargetStreams:
    """What a task knows about streams."""

    def __init__(self, js: JetStream, options: SourceOptions) -> None:
        self._js = js
        self._options = options
        self._subjects: dict[str, str] = {}
        # The subjects of the streams that were found.
        self._patterns: dict[str, list[str]] = {}

    def stream_of(self, subject: str) -> str | None:
        """The stream that is known to store it."""
        stream = self._subjects.get(subject)
        if stream is None:
            for name, patterns in self._patterns.items():
                if any(subject_matches(each, subject) for each in patterns):
                    self._remember(subject, name)
                    return name
        return stream

    def _remember(self, subject: str, stream: str) -> None:
        if len(self._subjects) >= _REMEMBERED:
            self._subjects.clear()
        self._subjects[subject] = stream

    async def find(self, subject: str, place: str = "option subject") -> None:
        """Look for the stream of a subject. Raises `UsageError` when there is none, or not the right one.

        `place` is where the subject was given, for people.
        """
        names = await retry(lambda: self._names(subject))
        wanted = self._options.stream[0] if self._options.stream else None
        if not names:
            raise UsageError(
                f"{place}: no stream stores {subject!r}",
                hint=f"Create one with subjects=[{subject!r}], or check `domain` and the account",
            )
        if wanted is not None and wanted not in names:
            raise UsageError(
                f"{place}: {subject!r} is stored by stream {', '.join(names)}, not by {wanted}",
                hint="Mend option stream or the subject",
            )
        for name in names:
            if name not in self._patterns:
                await self._check(name)
        self._remember(subject, wanted or names[0])

    async def _names(self, subject: str) -> list[str]:
        return [name async for name in self._js.stream_names(subject)]

    async def _check(self, name: str) -> None:
        config = (await stream_info(self._js, name)).config
        options = self._options
        if options.publish_mode == "atomic" and not config.allow_atomic:
            raise UsageError(
                f"stream {name} takes no atomic batches",
                hint="Update it with allow_atomic=True (nats-server 2.12), or leave publishMode=atomic out",
            )
        window, wanted = config.duplicate_window or 0.0, options.min_duplicate_window
        if window < wanted:
            told = (
                f"stream {name} forgets message ids after {window:g} s, minDuplicateWindow is {wanted:g}: "
                "rows that are written again later than that are stored twice"
            )
            hint = f"Update the stream with duplicate_window={wanted:g}"
            if "minDuplicateWindow" in options.given:
                raise UsageError(told, hint=f"{hint}, or lower minDuplicateWindow")
            logger.warning("%s. %s", told, hint)
        self._patterns[name] = config.subjects
