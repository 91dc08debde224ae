"""The options of `format("jetstream")`: one table, parsed and validated in one place. Pure.

In reading order:

| file     |                                                                            |
|----------|----------------------------------------------------------------------------|
| `values` | the parsers of single values                                               |
| `table`  | one row for each option: its name, its field, its parser, where it applies |
| `types`  | the parsed options: hashable and picklable, without secrets in their repr  |
| `checks` | options that exclude or need each other                                    |
| `parse`  | `parse_options`: from text to types                                        |

Each file imports only files above it.
"""

from jetspark.spark.options.parse import parse_options
from jetspark.spark.options.table import Use, option_use
from jetspark.spark.options.types import ConnectionOptions, SourceOptions
from jetspark.spark.options.values import PositionOption, TimeOption, stream_matches

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
