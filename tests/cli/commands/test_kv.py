"""`jetspark kv`, against the real server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.support import Cli, Process


@pytest.fixture
def bucket(cli: Cli, name: str) -> str:
    cli("kv", "add", name, "--history", "3", "--storage", "memory", "--marker-ttl", "5s")
    return name


def test_add_edit_and_info_show_a_bucket(cli: Cli, name: str) -> None:
    lines = [line.strip() for line in cli("kv", "add", name, "--ttl", "7d", "--compress").out.splitlines()]
    assert lines[0] == f"Bucket {name}"
    assert "Maximum age: 7d" in lines
    assert "Compressed: yes" in lines
    changed = cli.json("kv", "edit", name, "--history", "4", "--metadata", "a=b")
    assert (changed["history"], changed["ttl"], changed["compressed"]) == (4, 604800.0, True)
    assert changed["metadata"]["a"] == "b"
    assert cli.json("kv", "info", name)["bucket"] == name
    assert "jetspark kv edit" in cli.fails("kv", "add", name, code=1)


def test_values_are_put_and_shown(cli: Cli, bucket: str) -> None:
    assert cli("kv", "put", bucket, "a.b", "1.10").out == "1\n"
    assert cli.json("kv", "put", bucket, "a.b", stdin=b"1.11") == {
        "bucket": bucket,
        "key": "a.b",
        "revision": 2,
    }
    assert cli("kv", "get", bucket, "a.b", "--raw").out == "1.11"
    assert cli("kv", "get", bucket, "a.b").out.splitlines()[-1] == "1.11"
    entry = cli.json("kv", "get", bucket, "a.b", "--revision", "1")
    assert (entry["value"], entry["operation"], entry["revision"]) == ("1.10", "PUT", 1)
    assert cli("kv", "revert", bucket, "a.b", "1").out == "3\n"
    assert cli("kv", "get", bucket, "a.b", "--raw").out == "1.10"
    cli("kv", "put", bucket, "binary", stdin=b"\xff\xfe")
    assert cli.json("kv", "get", bucket, "binary")["value_base64"] == "//4="


def test_conditions_are_checked(cli: Cli, bucket: str) -> None:
    cli("kv", "create", bucket, "k", "1", "--ttl", "1h")
    assert "exists, at revision 1" in cli.fails("kv", "create", bucket, "k", "2", code=1)
    cli("kv", "update", bucket, "k", "2", "--revision", "1")
    assert "not at revision 1" in cli.fails("kv", "update", bucket, "k", "3", "--revision", "1", code=1)
    assert "not at revision 1" in cli.fails("kv", "del", bucket, "k", "--revision", "1", code=1)


def test_keys_are_deleted_listed_and_compacted(cli: Cli, bucket: str) -> None:
    for key in ("a", "b.x", "b.y"):
        cli("kv", "put", bucket, key, "1")
    cli("kv", "del", bucket, "a")
    cli("kv", "purge", bucket, "b.x")
    assert cli("kv", "ls", bucket).out == "b.y\n"
    assert cli.json("kv", "ls", bucket, "b.*") == ["b.y"]
    assert "deleted by DEL" in cli.fails("kv", "get", bucket, "a", code=4)
    assert [entry["operation"] for entry in cli.json("kv", "history", bucket, "a")] == ["PUT", "DEL"]
    assert "PURGE" in cli("kv", "history", bucket, "b.x").out
    assert cli.json("kv", "compact", bucket, "--age", "0")["removed"] == 3
    assert bucket in [each["bucket"] for each in cli.json("kv", "ls")]
    assert bucket in cli("kv", "ls").out


def test_a_bucket_is_deleted_when_that_is_confirmed(cli: Cli, bucket: str) -> None:
    assert "--force" in cli.fails("kv", "del", bucket, code=2)
    cli("kv", "del", bucket, "--force")
    assert "`jetspark kv ls`" in cli.fails("kv", "info", bucket, code=4)


def test_watch_shows_values_and_changes(cli: Cli, bucket: str, process: Callable[..., Process]) -> None:
    cli("kv", "put", bucket, "a", "1")
    watching = process("kv", "watch", bucket, "--json", "--count", "3")
    assert '"value": "1"' in watching.line()
    cli("kv", "put", bucket, "b", "2")
    assert '"value": "2"' in watching.line()
    cli("kv", "del", bucket, "a")
    assert '"operation": "DEL"' in watching.line()
    assert watching.end().code == 0
    text = cli("kv", "watch", bucket, "b", "--count", "1").out
    assert text.endswith("PUT b (2): 2\n")
