"""`jetspark stream`: manage streams and their messages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jetspark.cli.args.parameters import Force, comma_separated, one_of, option, parser
from jetspark.cli.args.units import count, duration, limit, show_bytes, show_count, show_duration, show_time
from jetspark.cli.command import Run, command, group
from jetspark.cli.commands.stream.options import OPTIONS, RETENTIONS, fields
from jetspark.cli.complete import StreamName
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.json import stored_json, to_json
from jetspark.cli.ui.messages import show_stored
from jetspark.cli.ui.output import Output
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import RetentionPolicy, StorageType, StreamConfig

#: Settings that `add` asks for: the field, the question, the default, and the parser of the answer.
_QUESTIONS = (
    ("storage", f"Storage ({', '.join(StorageType)})", "file", one_of(*StorageType)),
    (
        "retention",
        f"Retention ({', '.join(RetentionPolicy)})",
        "limits",
        one_of(*RetentionPolicy, synonyms=RETENTIONS),
    ),
    ("max_msgs", "Maximum messages (-1 for no limit)", "-1", parser(count)),
    ("max_bytes", "Maximum size, like 10GB (-1 for no limit)", "-1", parser(limit)),
    ("max_age", "Maximum age, like 7d (0 for no limit)", "0", parser(duration)),
)

app = group("Manage streams and their messages.")


@command(
    app,
    "add",
    options=OPTIONS,
    examples="""
    jetspark stream add ORDERS --subjects 'orders.>' --max-age 7d
    jetspark stream add JOBS --subjects 'jobs.*' --retention work --max-bytes 10GB --replicas 3
    jetspark stream add ADVISORIES --subjects '$JS.EVENT.ADVISORY.>' --max-age 7d
    """,
)
async def add(
    run: Run,
    given: dict[str, Any],
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="Name of the stream.")] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Ask for the name and the subjects only.")
    ] = False,
) -> None:
    """Create a stream.

    In a terminal it asks for missing settings; elsewhere it takes the defaults.
    """
    given = {name: value for name, value in given.items() if value is not None}
    name = _ask_for_missing(run.out, stream, given, defaults)
    async with run.jetstream() as js:
        info = (await js.create_stream(StreamConfig(name=name, **fields(given)))).cached_info
    show_info(
        run.out, info, f"Stream {name} was created" if info.did_create else f"Stream {name} already exists"
    )


def _ask_for_missing(out: Output, name: str | None, given: dict[str, Any], defaults: bool) -> str:
    has_origin = given.get("mirror") or given.get("sources")
    if not out.interactive:
        if name is None:
            raise Failure("missing STREAM", "Usage: `jetspark stream add STREAM --subjects ...`", Exit.USAGE)
        return name
    name = name or out.ask("Name of the stream")
    if not given.get("subjects") and not has_origin:
        given["subjects"] = comma_separated([out.ask("Subjects, separated by commas", default=name)])
    if not defaults:
        for field, question, default, read in _QUESTIONS:
            if field not in given:
                given[field] = read(out.ask(question, default=default))
    return name


@command(
    app,
    "ls",
    examples="""
    jetspark stream ls
    jetspark stream ls --subject orders.new
    jetspark stream ls --names | xargs -n1 jetspark stream info
    """,
)
async def ls(
    run: Run,
    subject: Annotated[
        str | None, option("--subject", metavar="SUBJECT", help="Only streams that store this subject.")
    ] = None,
    names: Annotated[bool, typer.Option("--names", "-n", help="Print only the names.")] = False,
) -> None:
    """List streams."""
    async with run.jetstream() as js:
        infos = sorted([info async for info in js.streams(subject)], key=lambda info: info.config.name)
    if names:
        run.out.names(info.config.name for info in infos)
    elif run.out.json:
        run.out.value(to_json(infos))
    else:
        run.out.table(
            ("Name", "Subjects", "Storage", "Messages", "Size", "Consumers", "Last message"),
            (
                (
                    info.config.name,
                    ", ".join(info.config.subjects),
                    info.config.storage,
                    show_count(info.state.messages),
                    show_bytes(info.state.bytes),
                    info.state.consumer_count,
                    show_time(info.state.last_ts),
                )
                for info in infos
            ),
            empty="No streams. Create one with `jetspark stream add`",
        )


@command(
    app,
    "info",
    examples="""
    jetspark stream info ORDERS
    jetspark stream info ORDERS --subjects '>'
    jetspark stream info ORDERS --json | jq .state.last_seq
    """,
)
async def info(
    run: Run,
    stream: StreamName,
    *,
    subjects: Annotated[
        str | None,
        option("--subjects", metavar="FILTER", help="Count the messages of each matching subject."),
    ] = None,
) -> None:
    """Show the configuration and state of a stream."""
    async with run.jetstream() as js:
        found = await (await js.get_stream(stream)).info(subjects_filter=subjects)
    show_info(run.out, found, f"Stream {stream}")
    if found.state.subjects and not run.out.json:
        run.out.text()
        rows = sorted(found.state.subjects.items(), key=lambda item: -item[1])
        run.out.table(
            ("Subject", "Messages"), ((name, show_count(number)) for name, number in rows), empty=""
        )


@command(
    app,
    "get",
    examples="""
    jetspark stream get WQ 5
    jetspark stream get ORDERS --last-for 'orders.eu.*'
    jetspark stream get ORDERS 17 --raw > body.bin
    """,
)
async def get(
    run: Run,
    stream: StreamName,
    sequence: Annotated[int | None, typer.Argument(metavar="SEQUENCE", min=1, show_default=False)] = None,
    last_for: Annotated[
        str | None, option("--last-for", "-S", metavar="SUBJECT", help="The last message of a subject.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "-r", help="Print only the data; unchanged, except on a terminal.")
    ] = False,
) -> None:
    """Show a message of a stream."""
    if (sequence is None) == (last_for is None):
        raise Failure("give either a sequence or --last-for SUBJECT", code=Exit.USAGE)
    async with run.jetstream() as js:
        found = await js.get_stream(stream)
        message = await (
            found.get_message(sequence) if sequence is not None else found.get_last_message(str(last_for))
        )
    if run.out.json:
        run.out.value(stored_json(message))
    elif raw:
        run.out.raw(message.data)
    else:
        show_stored(run.out, message)


@command(
    app,
    "purge",
    examples="""
    jetspark stream purge ORDERS
    jetspark stream purge ORDERS --subject 'orders.eu.>' --keep 100 --force
    """,
)
async def purge(
    run: Run,
    stream: StreamName,
    *,
    subject: Annotated[
        str | None, option("--subject", metavar="SUBJECT", help="Only messages of this subject.")
    ] = None,
    before: Annotated[
        int | None, option("--seq", metavar="SEQUENCE", help="Only messages before this one.")
    ] = None,
    keep: Annotated[
        int | None, option("--keep", metavar="NUMBER", help="Keep this many of the last messages.")
    ] = None,
    force: Force = False,
) -> None:
    """Delete messages of a stream, by default all of them."""
    async with run.jetstream() as js:
        found = await js.get_stream(stream)
        holds = f"stream {stream}, which holds {show_count(found.cached_info.state.messages, 'message')}"
        some = subject is not None or before is not None or keep is not None
        run.out.confirm(f"Delete {'some' if some else 'all'} messages of {holds}?", force=force)
        purged = await found.purge(subject=subject, sequence=before, keep=keep)
    run.out.result(
        {"stream": stream, "purged": purged}, f"Deleted {show_count(purged, 'message')} of stream {stream}"
    )


@command(
    app,
    "edit",
    options={name: row for name, row in OPTIONS.items() if name not in ("storage", "first_seq", "mirror")},
    examples="""
    jetspark stream edit ORDERS --max-age 30d
    jetspark stream edit ORDERS --subjects 'orders.>,returns.>' --force
    """,
)
async def edit(run: Run, stream: StreamName, given: dict[str, Any], force: Force = False) -> None:
    """Change the configuration of a stream. Other settings stay the same."""
    changes = fields(given)
    if not changes:
        raise Failure("no setting given", "See `jetspark stream edit --help`", Exit.USAGE)
    async with run.jetstream() as js:
        before = (await js.get_stream(stream)).config
        after = before.replace(**changes)
        different = [name for name in changes if getattr(before, name) != getattr(after, name)]
        if different and not force:
            for name in different:
                run.out.note(f"{name}: {to_json(getattr(before, name))} -> {to_json(getattr(after, name))}")
            run.out.confirm(f"Change stream {stream}?", force=force)
        changed = (await js.update_stream(after)).cached_info
    show_info(
        run.out, changed, f"Stream {stream} was changed" if different else f"Stream {stream} is unchanged"
    )


@command(app, "rm", examples="jetspark stream rm ORDERS\njetspark stream rm ORDERS --force")
async def rm(run: Run, stream: StreamName, force: Force = False) -> None:
    """Delete a stream, its messages and its consumers."""
    async with run.jetstream() as js:
        state = (await js.get_stream(stream)).cached_info.state
        holds = f"{show_count(state.messages, 'message')} and {show_count(state.consumer_count, 'consumer')}"
        run.out.confirm(f"Delete stream {stream} with {holds}?", force=force)
        await js.delete_stream(stream)
    run.out.result({"stream": stream, "deleted": True}, f"Deleted stream {stream}")


@command(app, "rmm", examples="jetspark stream rmm ORDERS 17\njetspark stream rmm ORDERS 17 --force")
async def rmm(
    run: Run,
    stream: StreamName,
    sequence: Annotated[int, typer.Argument(metavar="SEQUENCE", min=1, help="Sequence of the message.")],
    force: Force = False,
) -> None:
    """Delete one message of a stream, and overwrite it on disk."""
    async with run.jetstream() as js:
        found = await js.get_stream(stream)
        run.out.confirm(f"Delete message {sequence} of stream {stream}?", force=force)
        await found.secure_delete_message(sequence)
    run.out.result(
        {"stream": stream, "sequence": sequence, "deleted": True},
        f"Deleted message {sequence} of stream {stream}",
    )


def show_info(out: Output, info: StreamInfo, heading: str) -> None:
    config, state = info.config, info.state
    out.describe(
        to_json(info),
        heading,
        (
            ("Description", config.description),
            ("Subjects", ", ".join(config.subjects) or None),
            ("Mirror of", config.mirror and config.mirror.name),
            ("Sources", ", ".join(source.name for source in config.sources) or None),
            ("Created", show_time(info.created)),
            ("Storage", config.storage),
            ("Replicas", config.num_replicas),
            ("Leader", info.cluster and info.cluster.leader),
            ("Retention", config.retention),
            ("Discard", config.discard),
            ("Acknowledgements", not config.no_ack),
            ("Direct get", config.allow_direct),
            ("Duplicate window", show_duration(config.duplicate_window or 0)),
            ("Maximum messages", _unlimited(config.max_msgs, show_count)),
            ("Maximum per subject", _unlimited(config.max_msgs_per_subject, show_count)),
            ("Maximum bytes", _unlimited(config.max_bytes, show_bytes)),
            ("Maximum age", _unlimited(config.max_age, show_duration)),
            ("Maximum message size", _unlimited(config.max_msg_size, show_bytes)),
            ("Messages", show_count(state.messages)),
            ("Bytes", show_bytes(state.bytes)),
            ("First sequence", _at(state.first_seq, state.first_ts)),
            ("Last sequence", _at(state.last_seq, state.last_ts)),
            ("Deleted messages", show_count(state.num_deleted) if state.num_deleted else None),
            ("Subjects stored", show_count(state.num_subjects)),
            ("Consumers", state.consumer_count),
        ),
    )


def _unlimited(value: Any, show: Any) -> str:
    return "unlimited" if value is None or value <= 0 else str(show(value))


def _at(sequence: int, time: Any) -> str:
    return f"{show_count(sequence)} @ {show_time(time)}" if time is not None else show_count(sequence)
