"""The sources of a job, by the `format` of the section `[source]`.

jetstream   streams, read with `format("jetstream")`

A new source is one file with a subclass of `config.SourceSection`, and one row here. Sources import `config`
and `toml_lines`, never each other.
"""

from typing import Final

from jetspark.logs.job.config import SourceSection
from jetspark.logs.job.sources.jetstream import JetStreamSource

__all__ = ["SOURCES"]

SOURCES: Final[dict[str, type[SourceSection]]] = {
    "jetstream": JetStreamSource,
}
