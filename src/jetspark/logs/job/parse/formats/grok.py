"""The format `grok`: a pattern of named patterns, `%{IPORHOST:client} %{INT:status:int}`."""

from __future__ import annotations

from collections.abc import Mapping

from jetspark.logs.job.grok import Expanded, expand
from jetspark.logs.job.parse.fields import TYPES
from jetspark.logs.job.parse.formats.regex import RegexFormat
from jetspark.logs.toml_lines import Where

__all__ = ["GrokFormat"]


class GrokFormat(RegexFormat, frozen=True):
    """A regex after its names are replaced. Types are in the pattern or in `fields`."""

    #: Patterns of the user, by name.
    patterns: dict[str, str] = {}  # noqa: RUF012 - a field of msgspec

    @property
    def text(self) -> str:
        return self._expanded().text

    @property
    def kinds(self) -> Mapping[str, str]:
        return {**super().kinds, **self._expanded().types}

    def check(self, where: Where) -> None:
        super().check(where)
        for name, kind in self._expanded().types.items():
            if kind not in TYPES:
                what = f"the type {kind!r} of {name} is not one of {', '.join(TYPES)}"
                raise where.error("parse.pattern", what)
            if name in self.fields:
                raise where.error(("parse", "fields", name), "the pattern has a type for it, too")

    def _expanded(self) -> Expanded:
        return expand(self.pattern, self.patterns)
