"""`jetspark stream subjects` and `gaps`: what a stream holds, and what is missing in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from jetspark.cli.args.parameters import option
from jetspark.cli.args.units import show_count
from jetspark.cli.command import Run, command
from jetspark.cli.commands.stream.command import app
from jetspark.cli.complete import StreamName


@command(
    app,
    "subjects",
    examples="jetspark stream subjects ORDERS\njetspark stream subjects ORDERS --filter 'orders.eu.>' --json",
)
async def subjects(
    run: Run,
    stream: StreamName,
    filters: Annotated[
        str, option("--filter", metavar="SUBJECT", help="Only subjects that match this.")
    ] = ">",
) -> None:
    """List the subjects of a stream and count their messages."""
    async with run.jetstream() as js:
        info = await (await js.get_stream(stream)).info(subjects_filter=filters)
    found = sorted(info.state.subjects.items(), key=lambda item: (-item[1], item[0]))
    if run.out.json:
        run.out.value(dict(found))
        return
    run.out.table(
        ("Subject", "Messages"), ((name, show_count(number)) for name, number in found), empty="No messages"
    )


@command(app, "gaps", examples="jetspark stream gaps ORDERS\njetspark stream gaps ORDERS --json")
async def gaps(run: Run, stream: StreamName) -> None:
    """List the sequences between the first and the last message that are deleted."""
    async with run.jetstream() as js:
        info = await (await js.get_stream(stream)).info(deleted_details=True)
    found = list(_ranges(info.state.deleted))
    if run.out.json:
        run.out.value([{"first": first, "last": last, "messages": last - first + 1} for first, last in found])
        return
    run.out.table(
        ("First", "Last", "Messages"),
        ((show_count(first), show_count(last), show_count(last - first + 1)) for first, last in found),
        empty="No gaps",
    )


def _ranges(sequences: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive sequences."""
    first = last = 0
    for sequence in sorted(sequences):
        if first and sequence != last + 1:
            yield first, last
            first = 0
        first, last = first or sequence, sequence
    if first:
        yield first, last
