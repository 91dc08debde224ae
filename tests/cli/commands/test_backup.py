"""`jetspark stream backup`, `restore`, `copy`, `subjects` and `gaps`, against the real server."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import Cli


def test_a_stream_is_written_to_a_directory_and_restored(cli: Cli, stream: str, tmp_path: Path) -> None:
    subject = cli.json("stream", "info", stream)["config"]["subjects"][0].removesuffix(".>")
    cli("pub", f"{subject}.a", "x", "--count", 5)
    assert f"Wrote 5 messages of stream {stream}" in cli("stream", "backup", stream, tmp_path / "b").out
    assert "already holds a backup" in cli.fails("stream", "backup", stream, tmp_path / "b", code=2)
    cli("stream", "rm", stream, "--force")
    assert f"Restored stream {stream}: 5 messages" in cli("stream", "restore", tmp_path / "b").out
    assert cli.json("stream", "info", stream)["state"]["messages"] == 5
    assert "No such file" in cli.fails("stream", "restore", tmp_path / "none", code=2)
    assert "does not describe" not in cli("stream", "subjects", stream).out


def test_a_stream_is_created_like_another(cli: Cli, stream: str, name: str) -> None:
    line = cli.fails("stream", "copy", stream, f"{name}-copy", code=2)
    assert "two streams cannot store" in line
    cli("stream", "copy", stream, f"{name}-copy", "--subjects", f"{name}-copy.>", "--max-age", "1h")
    copied = cli.json("stream", "info", f"{name}-copy")["config"]
    original = cli.json("stream", "info", stream)["config"]
    assert (copied["max_age"], copied["subjects"]) == (3600.0, [f"{name}-copy.>"])
    assert copied["storage"] == original["storage"]


def test_subjects_and_gaps_are_listed(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    assert cli.json("stream", "subjects", name) == {}
    for letter in "abab":
        cli("pub", f"{name}.{letter}", letter)
    cli("pub", f"{name}.c", "c", "--count", 6)
    assert cli.json("stream", "subjects", name) == {f"{name}.c": 6, f"{name}.a": 2, f"{name}.b": 2}
    assert cli.json("stream", "subjects", name, "--filter", f"{name}.a") == {f"{name}.a": 2}
    assert cli.json("stream", "gaps", name) == []
    cli("stream", "purge", name, "--subject", f"{name}.b", "--force")
    cli("stream", "purge", name, "--subject", f"{name}.a", "--keep", "1", "--force")
    assert cli.json("stream", "gaps", name) == [{"first": 4, "last": 4, "messages": 1}]
    assert "1" in cli("stream", "gaps", name).out
