"""The journal as an input: real files of systemd-journal-remote, read by the real journalctl."""

from __future__ import annotations

import json
import lzma
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from jetspark import JetStream, Stream
from jetspark.errors import Error, UsageError
from jetspark.logs.agent.input import JournalSource, LogInput
from jetspark.logs.agent.journal import Journal
from tests.cli.support import Cli
from tests.logs.support import read_all, shipping, stored, until
from tests.support.cases import for_each

#: `one` has entries 1 to 4 and `two` 5 and 6, each of a series of its own. The entries 4 and 6 are of nginx.
FILES = Path(__file__).parent / "journal"
ONE = ["started", "failed\nTraceback (most recent call last):\n  File", "caf\ufffd", "GET /"]
TWO = ["later", "GET /later"]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


def add(journal: Path, name: str) -> None:
    """Add a file, at once."""
    hidden = journal / f"{name}.hidden"
    hidden.write_bytes(lzma.decompress((FILES / f"{name}.journal.xz").read_bytes()))
    hidden.rename(journal / f"{name}.journal")


def options_of(stream: Stream, journal: Path, *matches: str) -> dict[str, Any]:
    source = JournalSource(matches=matches, directory=str(journal))
    return {"patterns": (), "inputs": [LogInput(name="system", journal=source, prefix=stream.name.lower())]}


async def messages_of(stream: Stream) -> list[str]:
    return [json.loads(message.data)["MESSAGE"] for message in await read_all(stream)]


async def test_entries_are_messages_in_order_with_the_id_of_their_cursor(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "two")
    add(journal, "one")
    options = options_of(stream, journal)
    async with shipping(js, stream, logs, once=True, **options) as running:
        await running.end()
    assert running.agent.status().lines == 6
    messages = await read_all(stream)
    assert await messages_of(stream) == ONE + TWO
    first = json.loads(messages[0].data)
    series = first["__CURSOR"].partition(";")[0].removeprefix("s=")
    assert messages[0].headers["Nats-Msg-Id"] == f"web1-journal-system-{series}-1"
    assert messages[0].headers["Jetspark-File"] == "journal"
    assert (first["time"], first["PRIORITY"]) == ("2026-10-26T07:33:21.000000+00:00", "6")
    assert json.loads(messages[3].data)["TAG"] == ["a", "b"]
    async with shipping(js, stream, logs, once=True, **options) as running:
        await running.end()
    assert (running.agent.status().lines, running.agent.status().duplicates) == (0, 0)


async def test_a_journal_is_followed_from_where_it_was(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "one")
    options = options_of(stream, journal)
    async with shipping(js, stream, logs, **options):
        await stored(stream, 4)
    add(journal, "two")
    async with shipping(js, stream, logs, **options):
        await stored(stream, 6)
    assert await messages_of(stream) == ONE + TWO


async def test_a_file_that_appears_is_read(js: JetStream, stream: Stream, logs: Path, journal: Path) -> None:
    add(journal, "one")
    async with shipping(js, stream, logs, **options_of(stream, journal, "_SYSTEMD_UNIT=nginx.service")):
        await stored(stream, 1)
        add(journal, "two")
        await stored(stream, 2)
    assert await messages_of(stream) == ["GET /", "GET /later"]


async def test_an_agent_may_begin_at_the_end(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "one")
    async with shipping(js, stream, logs, once=True, from_end=True, **options_of(stream, journal)) as running:
        await running.end()
    add(journal, "two")
    async with shipping(js, stream, logs, once=True, from_end=True, **options_of(stream, journal)) as running:
        await running.end()
    assert await messages_of(stream) == TWO


async def test_entries_stored_beyond_the_position_are_not_sent_again(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    await stream.update(stream.config.replace(duplicate_window=0.1))
    add(journal, "one")
    add(journal, "two")
    options = options_of(stream, journal)
    async with shipping(js, stream, logs, once=True, **options) as running:
        await running.end()
    # As if it had died before it could save that the last entries are stored.
    positions = logs / "positions.json"
    cursors = [json.loads(message.data)["__CURSOR"] for message in await read_all(stream)]
    for cursor, duplicates in ((cursors[1], 4), (cursors[4], 1), ("", 6)):
        document = json.loads(positions.read_text())
        assert document["journals"] == [{"input": "system", "cursor": cursors[-1]}]
        document["journals"][0]["cursor"], document["since"] = cursor, time.time() - 1
        positions.write_text(json.dumps(document))
        async with shipping(js, stream, logs, once=True, **options) as running:
            await running.end()
        assert running.agent.status().duplicates == duplicates
    assert await messages_of(stream) == ONE + TWO


async def test_a_position_whose_entry_was_deleted_is_followed_by_the_next_entry(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "one")
    options = options_of(stream, journal)
    async with shipping(js, stream, logs, once=True, **options) as running:
        await running.end()
    (journal / "one.journal").unlink()
    add(journal, "two")
    async with shipping(js, stream, logs, once=True, **options) as running:
        await running.end()
    assert await messages_of(stream) == ONE + TWO


async def test_journalctl_that_is_killed_is_started_again(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "one")
    async with shipping(js, stream, logs, **options_of(stream, journal)) as running:
        await stored(stream, 4)
        os.kill(_child_of(os.getpid(), str(journal)), signal.SIGKILL)
        await running.says("journalctl failed: exit code -9; starting it again")
        add(journal, "two")
        await stored(stream, 6)
    assert await messages_of(stream) == ONE + TWO

    async def ended() -> bool:
        return not _children(str(journal))

    await until(ended, "journalctl has ended with its agent")


def _children(words: str) -> list[int]:
    """The processes with these words in their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if words.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _child_of(parent: int, words: str) -> int:
    (child,) = [each for each in _children(words) if each != parent]
    return child


async def test_entries_are_sent_again_after_the_stream_rejected_them(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    add(journal, "one")
    config = stream.config
    await stream.delete()
    async with shipping(js, stream, logs, **options_of(stream, journal)) as running:
        await running.says("the stream rejects lines")
        stream = await js.create_stream(config)
        await stored(stream, 4)
    assert await messages_of(stream) == ONE


async def test_a_journal_that_cannot_be_read_is_an_error_once_and_a_report_otherwise(
    js: JetStream, stream: Stream, logs: Path, journal: Path
) -> None:
    options = options_of(stream, journal / "missing")
    with pytest.raises(Error, match=r"journalctl failed: Failed to open .*missing: No such file"):
        async with shipping(js, stream, logs, once=True, **options) as running:
            await running.end()
    async with shipping(js, stream, logs, **options) as running:
        await running.says("input system: journalctl failed: Failed to open")


def test_a_machine_without_journalctl_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="input a requires journalctl, which is not installed"):
        Journal(LogInput(name="a"), JournalSource(), limit=lambda: 1024, once=True, report=print)


@for_each("match", ["--vacuum-size=1", "unit=x", "A", "", "A=\0"])
def test_a_match_is_a_field_and_its_value(match: str) -> None:
    with pytest.raises(UsageError, match="must be FIELD=value"):
        JournalSource(matches=[match])


def test_a_journal_is_an_input_of_a_file(cli: Cli, journal: Path, logs: Path) -> None:
    add(journal, "one")
    (logs / "a.log").write_text("a\n")
    file = logs / "shipper.toml"
    file.write_text(
        'create = "LOGS"\n[input.files]\nfiles = ["a.log"]\n[input.system]\n'
        f'journal = {{ matches = ["_SYSTEMD_UNIT=app.service"], directory = "{journal}" }}\n'
    )
    assert cli.json("ship", "--config", file, "--once", "--no-control")["lines"] == 4
