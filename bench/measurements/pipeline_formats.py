"""The job of the log pipeline for lines of each format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from bench.harness import Contender, Measurement, Sample
from bench.measurements.pipeline import COMBINED, LINES_PER_SECOND, Bed, access_lines, empty_bed
from bench.processor import metered
from jetspark import StreamConfig

#: The agent's headers.
HEADERS: Final = {"Jetspark-Host": "bench", "Jetspark-File": "/var/log/bench.log", "Jetspark-Offset": "1"}


class Format(NamedTuple):
    #: The section `[parse]`.
    parse: str
    #: So many lines.
    lines: Callable[[int], Iterator[str]]


def _structured(pattern: str) -> Callable[[int], Iterator[str]]:
    return lambda count: (pattern % (n % 60, n % 500, n * 0.25, n) for n in range(count))


_FIELDS: Final = """
fields = { at = "string", level = "string", status = "int", took = "double", path = "string" }
time = "at"
"""
_REGEX: Final = r"""
format = "regex"
pattern = '(?<client>\S+) \S+ \S+ \[(?<at>[^\]]+)\] "(?<request>[^"]*)" (?<status>\d+) (?<size>\d+) .*'
fields = { status = "int", size = "bigint" }
time = "at"
time_format = "dd/MMM/yyyy:HH:mm:ss Z"
"""
_JSON: Final = '{"at": "2026-01-31T12:00:%02dZ", "level": "info", "status": %d, "took": %.2f, "path": "/%d"}'

FORMATS_OF_LINES: Final = {
    "combined": Format(COMBINED, access_lines),
    "regex": Format(_REGEX, access_lines),
    "json": Format(f'format = "json"\n{_FIELDS}', _structured(_JSON)),
    "logfmt": Format(
        f'format = "logfmt"\n{_FIELDS}',
        _structured('at=2026-01-31T12:00:%02dZ level=info status=%d took=%.2f path="/item/%d"'),
    ),
    "syslog": Format(
        'format = "syslog"',
        _structured("<34>1 2026-01-31T12:00:%02dZ web1 app %d - - took %.2f for item %d"),
    ),
    "raw": Format('format = "raw"', _structured("2026-01-31T12:00:%02dZ info %d %.2f item %d")),
}


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with empty_bed() as bed:
        for name, (parse, lines) in FORMATS_OF_LINES.items():
            bed.js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
            with bed.js.publisher() as publisher:
                for line in lines(count):
                    publisher.send(f"{name}.0.bench", line.encode(), headers=HEADERS)
            bed.run_job(count, name, parse)  # Warm-up.
        yield bed
        for name in FORMATS_OF_LINES:
            bed.js.delete_stream(name)


def of(name: str) -> Contender:
    def run(bed: Bed, count: int) -> Sample:
        return metered(count, lambda: bed.run_job(count, name, FORMATS_OF_LINES[name].parse))

    return Contender(name, run, "jetspark")


FORMATS: Final = Measurement(
    name="pipeline-formats",
    title="The formats of the pipeline",
    text="""
    The same job for lines of other formats; `regex` matches access logs. CPU time is in seconds per
    million lines.
    """,
    bed=bed,
    contenders=tuple(map(of, FORMATS_OF_LINES)),
    count=100_000,
    quick=500,
    rounds=3,
    columns=LINES_PER_SECOND,
)
