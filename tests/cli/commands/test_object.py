"""`jetspark object`, against the real server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import Cli, Terminal

DATA = os.urandom(300_001)


@pytest.fixture
def bucket(cli: Cli, name: str) -> str:
    cli("object", "add", name, "--storage", "memory")
    return name


def test_files_are_stored_and_written(
    cli: Cli, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.bin").write_bytes(DATA)
    info = cli.json("object", "put", bucket, "a.bin", "--description", "d", "-H", "k: v")
    assert (info["name"], info["size"], info["headers"]) == ("a.bin", len(DATA), {"k": ["v"]})
    assert "--force" in cli.fails("object", "get", bucket, "a.bin", code=2)
    assert "Wrote 293.0 KiB" in cli("object", "get", bucket, "a.bin", "--output", "b.bin").out
    assert (tmp_path / "b.bin").read_bytes() == DATA
    cli("object", "get", bucket, "a.bin", "--force")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".bin") == ["a.bin", "b.bin"]


def test_a_name_does_not_lead_out_of_the_directory(
    cli: Cli, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in ("../../evil", "/etc/evil", ".."):
        cli("object", "put", bucket, "--name", name, stdin=b"x")
        cli("object", "get", bucket, name, "--force")
    assert sorted(path.name for path in work.iterdir()) == ["evil", "object"]


def test_stdin_is_stored_and_written_to_stdout(cli: Cli, bucket: str) -> None:
    assert "--name" in cli.fails("object", "put", bucket, code=2)
    cli("object", "put", bucket, "--name", "in", stdin=b"hello")
    assert cli("object", "get", bucket, "in", "--output", "-").out == "hello"


def test_a_terminal_shows_the_progress(
    cli: Cli, bucket: str, tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    (tmp_path / "a.bin").write_bytes(DATA)
    putting = terminal("object", "put", bucket, tmp_path / "a.bin")
    putting.expect(f"/{len(DATA)}")
    assert putting.end() == 0
    getting = terminal("object", "get", bucket, "a.bin", "--output", tmp_path / "b.bin")
    getting.expect(f"/{len(DATA)}")
    assert getting.end() == 0
    assert (tmp_path / "b.bin").read_bytes() == DATA


def test_chunks_without_an_object_are_removed(cli: Cli, bucket: str) -> None:
    cli("object", "put", bucket, "--name", "one", stdin=b"1")
    cli("pub", f"$O.{bucket}.C.left", "x")
    assert cli.json("object", "compact", bucket)["removed"] == 0
    assert cli("object", "compact", bucket, "--age", "0").out == "Removed 1 chunks without an object\n"
    assert cli("object", "get", bucket, "one", "--output", "-").out == "1"


def test_objects_are_listed_shown_and_deleted(cli: Cli, bucket: str) -> None:
    cli("object", "put", bucket, "--name", "one", stdin=b"1")
    cli("object", "put", bucket, "--name", "two", stdin=b"22")
    assert [each["name"] for each in cli.json("object", "ls", bucket)] == ["one", "two"]
    assert "two" in cli("object", "ls", bucket).out
    assert cli.json("object", "info", bucket, "two")["size"] == 2
    assert "Digest: SHA-256=" in cli("object", "info", bucket, "one").out
    cli("object", "del", bucket, "one", "--force")
    assert "it was deleted" in cli.fails("object", "info", bucket, "one", code=4)
    records = cli("object", "watch", bucket, "--json", "--count", "2").records
    assert [(each["name"], each["deleted"]) for each in records] == [("two", False), ("one", True)]
    assert cli.json("object", "seal", bucket, "--force")["sealed"] is True
    assert bucket in [each["bucket"] for each in cli.json("object", "ls")]
    assert bucket in cli("object", "ls").out
    cli("object", "del", bucket, "--force")
    cli.fails("object", "info", bucket, code=4)
