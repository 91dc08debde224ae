"""The formats of lines, by the `format` of the section `[parse]`.

combined   access logs of Apache and nginx, `common` included
csv        values between separators, quoted or not
grok       patterns by name: `%{IPORHOST:client}`
json       objects, with fields inside of fields
logfmt     `key=value` pairs
raw        the line as it is
regex      a pattern of the user
syslog     RFC 5424, RFC 3164, and what syslog daemons write to files

A new format is one file with a subclass of `parse.fields.LineFormat` or `FieldsFormat`, and one row here.
A format parses `_line` into columns with Spark's own functions; nothing in it raises because of the content
of a line, and a line that does not parse has a reason. Formats do not import each other, except that `grok`
becomes a `regex`.
"""

from typing import Final

from jetspark.logs.job.config import ParseSection
from jetspark.logs.job.parse.formats.combined import CombinedFormat
from jetspark.logs.job.parse.formats.csv import CsvFormat
from jetspark.logs.job.parse.formats.grok import GrokFormat
from jetspark.logs.job.parse.formats.json import JsonFormat
from jetspark.logs.job.parse.formats.logfmt import LogfmtFormat
from jetspark.logs.job.parse.formats.raw import RawFormat
from jetspark.logs.job.parse.formats.regex import RegexFormat
from jetspark.logs.job.parse.formats.syslog import SyslogFormat

__all__ = ["FORMATS"]

FORMATS: Final[dict[str, type[ParseSection]]] = {
    "combined": CombinedFormat,
    "csv": CsvFormat,
    "grok": GrokFormat,
    "json": JsonFormat,
    "logfmt": LogfmtFormat,
    "raw": RawFormat,
    "regex": RegexFormat,
    "syslog": SyslogFormat,
}
