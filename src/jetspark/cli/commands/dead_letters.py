"""`jetspark dead-letters`: messages that a consumer gave up, found through the stored advisories."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from jetspark.cli.args.parameters import Force, duration_option, moment_option, option
from jetspark.cli.args.units import show_bytes, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.complete import ConsumerName, StreamName
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import to_json
from jetspark.cli.ui.messages import show_stored
from jetspark.errors import MessageNotFound
from jetspark.jetstream.context import WEEK, JetStream
from jetspark.jetstream.dead_letters import REPLAYED_FROM, DeadLetter
from jetspark.jetstream.publish.headers import headers_to_copy, is_control_header

app = group(
    "Messages that a consumer gave up. A stream must store the advisories: jetspark dead-letters capture"
)


@command(
    app,
    "capture",
    examples="""
    jetspark dead-letters capture
    jetspark dead-letters capture --max-age 30d --replicas 3
    """,
)
async def capture(
    run: Run,
    *,
    name: Annotated[
        str, option("--name", metavar="STREAM", help="Name of the stream (ADVISORIES).")
    ] = "ADVISORIES",
    max_age: Annotated[
        float | None, duration_option("--max-age", help="Keep advisories for this long (7d).")
    ] = None,
    replicas: Annotated[
        int | None, option("--replicas", metavar="NUMBER", min=1, max=5, help="Number of replicas, 1 to 5.")
    ] = None,
) -> None:
    """Create the stream that stores the advisories about dead letters, from now on."""
    kept = WEEK if max_age is None else max_age
    async with run.jetstream() as js:
        stream = await js.create_advisory_stream(name, max_age=kept, num_replicas=replicas)
    if run.out.json:
        run.out.value(to_json(stream.cached_info))
    else:
        run.out.text(f"Stream {name} stores advisories for {show_duration(kept)}")


@command(
    app,
    "ls",
    examples="""
    jetspark dead-letters ls WQ WORK
    jetspark dead-letters ls WQ WORK --since 1h --json
    jetspark dead-letters ls WQ WORK --follow --durable watcher
    """,
)
async def ls(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    *,
    since: Annotated[
        datetime | None, moment_option("--since", help="Only messages given up since this time.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep listing new ones, one per line.")] = False,
    durable: Annotated[
        str | None,
        option("--durable", metavar="NAME", help="With --follow: continue where the last run ended."),
    ] = None,
) -> None:
    """List the messages that a consumer gave up."""
    if durable is not None and not follow:
        raise Failure("--durable needs --follow", code=Exit.USAGE)
    async with run.jetstream() as js:
        await js.consumer_info(stream, consumer)
        found = js.dead_letters(stream, consumer, since=since, follow=follow, durable=durable)
        if follow:
            async for letter in found:
                if run.out.json:
                    run.out.record(to_json(letter))
                else:
                    run.out.text("  ".join(map(str, _cells(letter))))
            return
        letters = [letter async for letter in found]
    if run.out.json:
        run.out.value(to_json(letters))
    else:
        run.out.table(
            ("Sequence", "Given up", "Kind", "Deliveries", "Reason", "Subject", "Size"),
            map(_cells, letters),
            empty="No dead letters",
        )


def _cells(letter: DeadLetter) -> tuple[object, ...]:
    message = letter.message
    return (
        letter.sequence,
        show_time(letter.timestamp),
        letter.kind,
        letter.deliveries,
        letter.reason or "",
        message.subject if message is not None else "deleted from the stream",
        show_bytes(len(message.data)) if message is not None else "",
    )


@command(app, "show", examples="jetspark dead-letters show WQ WORK 5")
async def show(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    sequence: Annotated[int, typer.Argument(metavar="SEQUENCE", min=1)],
) -> None:
    """Show a dead letter: the message, and why the consumer gave it up."""
    async with run.jetstream() as js:
        letters = [each async for each in js.dead_letters(stream, consumer) if each.sequence == sequence]
    if not letters:
        raise _not_found(stream, consumer, [sequence])
    letter = letters[-1]
    if run.out.json:
        run.out.value(to_json(letter))
        return
    run.out.details(
        (
            ("Consumer", f"{stream} > {consumer}"),
            ("Given up", show_time(letter.timestamp)),
            ("Kind", letter.kind),
            ("Deliveries", letter.deliveries),
            ("Reason", letter.reason),
        )
    )
    run.out.text()
    if letter.message is not None:
        show_stored(run.out, letter.message)
    else:
        run.out.text(f"Message {stream}#{sequence} was deleted from the stream")


@command(
    app,
    "replay",
    examples="""
    jetspark dead-letters replay WQ WORK 5 7
    jetspark dead-letters replay WQ WORK --all --delete --force
    jetspark dead-letters replay ORDERS billing --all --to orders.retry
    """,
)
async def replay(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    sequences: Annotated[
        list[int] | None,
        typer.Argument(metavar="[SEQUENCE]...", help="Stream sequences of the dead letters."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Replay all dead letters.")] = False,
    to: Annotated[
        str | None,
        option("--to", metavar="SUBJECT", help="Publish to this subject instead of the original one."),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the original once the new message is stored.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Also replay messages that are replays.")] = False,
    force: Force = False,
) -> None:
    """Publish dead letters again.

    The data and the headers are kept, except the headers of NATS itself. A second replay within the
    duplicate window of the stream is dropped. A message that was replayed before and failed again is
    skipped, unless --again is set. Every consumer of the stream gets the new message; --to sends it
    elsewhere.
    """
    if bool(sequences) == every:
        raise Failure("give either sequences or --all", code=Exit.USAGE)
    async with run.jetstream() as js:
        letters = {letter.sequence: letter async for letter in js.dead_letters(stream, consumer)}
        if missing := sorted(set(sequences or ()) - set(letters)):
            raise _not_found(stream, consumer, missing)
        chosen = [letters[sequence] for sequence in sorted(set(sequences or letters))]
        present = [letter for letter in chosen if letter.message is not None]
        gone = len(chosen) - len(present)
        if not again:
            present = [letter for letter in present if not _is_replay(letter)]
        failed_again = len(chosen) - len(present) - gone
        if present and (every or delete):
            deleted = " and delete the originals" if delete else ""
            run.out.confirm(f"Publish {show_count(len(present), 'message')} again{deleted}?", force=force)
        records = []
        with run.out.progress("Replaying", len(present)) as progress:
            for letter in present:
                records.append(await _replay(run, js, letter, to, delete))
                progress.advance(1)
    if run.out.json:
        run.out.value({"replayed": records, "gone": gone, "failed_again": failed_again})
        return
    for record in records:
        stored = " (already stored)" if record["duplicate"] else ""
        run.out.text(f"{stream}#{record['from']} -> {record['stream']}#{record['sequence']}{stored}")
    if gone:
        run.out.warn(f"not in stream {stream} any more: {show_count(gone, 'message')}")
    if failed_again:
        run.out.warn(f"replayed before: {show_count(failed_again, 'message')}; --again replays them")
    if not chosen:
        run.out.note("No dead letters")


def _is_replay(letter: DeadLetter) -> bool:
    return letter.message is not None and REPLAYED_FROM in letter.message.headers


async def _replay(
    run: Run, js: JetStream, letter: DeadLetter, to: str | None, delete: bool
) -> dict[str, object]:
    message = letter.message
    assert message is not None
    headers = headers_to_copy(message.headers)
    if lost := [name for name in message.headers if name not in headers and not is_control_header(name)]:
        names = ", ".join(name or "a malformed block" for name in lost)
        run.out.warn(f"{message.stream}#{message.sequence} has headers that cannot be sent: {names}")
    ack = await js.replay_dead_letter(letter, to=to, again=True)
    if delete:
        try:
            await (await js.get_stream(letter.stream)).delete_message(letter.sequence)
        except MessageNotFound:
            pass  # It was deleted meanwhile.
    return {
        "from": letter.sequence,
        "stream": ack.stream,
        "sequence": ack.sequence,
        "subject": to or message.subject,
        "duplicate": ack.duplicate,
        "deleted": delete,
    }


@command(
    app,
    "purge",
    examples="""
    jetspark dead-letters purge WQ WORK
    jetspark dead-letters purge WQ WORK --messages --force
    """,
)
async def purge(
    run: Run,
    stream: StreamName,
    consumer: ConsumerName,
    *,
    messages: Annotated[
        bool, typer.Option("--messages", help="Delete the messages from their stream, too.")
    ] = False,
    force: Force = False,
) -> None:
    """Forget the dead letters of a consumer: delete the stored advisories about them."""
    async with run.jetstream() as js:
        await js.get_stream(stream)
        also = f" and delete their messages from {stream}" if messages else ""
        run.out.confirm(f"Forget the dead letters of {stream} > {consumer}{also}?", force=force)
        count = await js.purge_dead_letters(stream, consumer, messages=messages)
    if run.out.json:
        run.out.value({"purged": count})
    else:
        run.out.text(f"{show_count(count)} dead letters of {stream} > {consumer} are forgotten")


def _not_found(stream: str, consumer: str, sequences: list[int]) -> Failure:
    listed = ", ".join(map(str, sequences))
    return Failure(
        f"consumer {stream} > {consumer} has no dead letter {listed}",
        f"`jetspark dead-letters ls {stream} {consumer}` lists them",
        Exit.NOT_FOUND,
    )
