"""`jetspark export`, against the real server. What ends it early is in `test_process.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetspark.server import Server
from tests.cli.support import Cli
from tests.support.raw import RawClient


@pytest.fixture
def filled(cli: Cli, stream: str) -> str:
    """The stream with `a 1` to `a 50`, then `b 1` to `b 50`."""
    for letter in "ab":
        cli(
            "pub",
            f"{stream.lower()}.{letter}",
            f"{letter} {{{{Count}}}}",
            "--count",
            50,
            "-H",
            "Kind:x",
            "-H",
            "Kind:y",
        )
    return stream


def test_a_stream_becomes_a_parquet_file(cli: Cli, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    text = cli("export", filled, "-o", file).out
    assert text.startswith(f"Exported 100 messages of {filled}, ")
    assert text.endswith(" rows/s\n")
    table = pq.read_table(file)
    assert table.schema.names == ["subject", "data", "headers", "stream", "sequence", "timestamp"]
    assert table.schema.field("headers").type == pa.map_(pa.string(), pa.list_(pa.string()))
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table["sequence"].to_pylist() == list(range(1, 101))
    row = table.slice(99, 1).to_pylist()[0]
    assert (row["subject"], row["data"], row["stream"]) == (f"{filled.lower()}.b", b"b 50", filled)
    assert dict(row["headers"])["Kind"] == ["x", "y"]
    record = cli.json("stream", "get", filled, 100)
    assert row["timestamp"].isoformat() == record["timestamp"].replace("Z", "+00:00")
    assert list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part")) == []


#: Header blocks that a stream stores as they are, and what of them can be read.
MALFORMED = {
    b"NATS/1.0\r\nKind: x\r\nno colon \x1b\r\n\r\n": {"Kind": ["x"]},
    b"NATS/1.0\r\nKind: x\xff": {"Kind": ["x\ufffd"]},
    b"garbage\r\n\r\n": {},
}


def test_messages_with_malformed_headers_are_exported(
    cli: Cli, filled: str, shared_server: Server, tmp_path: Path
) -> None:
    with RawClient(shared_server.port) as client:
        for block in MALFORMED:
            client.store(f"{filled.lower()}.a", block, b"x")
    expected = [{**read, "": [block.decode("utf-8", "replace")]} for block, read in MALFORMED.items()]
    assert [record["headers"] for record in cli("export", filled).records][100:] == expected
    cli("export", filled, "-o", tmp_path / "out.parquet")
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [dict(row["headers"]) for row in rows][100:] == expected
    for sequence, headers in enumerate(expected, 101):
        assert cli.json("stream", "get", filled, sequence)["headers"].keys() == headers.keys()
        assert "\x1b" not in cli("stream", "get", filled, sequence).out
    records = cli("sub", "--stream", filled, "--start-sequence", 101, "--count", 3, "--json").records
    assert [record["headers"].keys() for record in records] == [headers.keys() for headers in expected]
    shown = cli("sub", "--stream", filled, "--start-sequence", 101, "--count", 3).out
    assert "no colon" in shown
    assert "\x1b" not in shown


def test_a_stream_becomes_json_lines_on_stdout_or_in_a_file(cli: Cli, filled: str, tmp_path: Path) -> None:
    records = cli("export", filled).records
    assert [record["sequence"] for record in records] == list(range(1, 101))
    assert records[0] == cli.json("stream", "get", filled, 1)
    file = tmp_path / "out.jsonl"
    summary = cli.json("export", filled, "-o", file)
    assert summary.pop("seconds") > 0
    assert summary.pop("file_bytes") == file.stat().st_size
    assert summary == {"stream": filled, "file": str(file), "format": "jsonl", "messages": 100, "bytes": 382}
    assert file.read_text().splitlines() == cli("export", filled).out.splitlines()


PARTS: list[tuple[list[str], list[int]]] = [
    (["--start-sequence", "11", "--end-sequence", "14"], [11, 12, 13]),
    (["--start-sequence", "99"], [99, 100]),
    (["--end-sequence", "3"], [1, 2]),
    (["--start-sequence", "101"], []),
    (["--start-sequence", "5", "--end-sequence", "5"], []),
    (["--since", "1h", "--end-sequence", "3"], [1, 2]),
    (["--since", "2099-01-01T00:00:00Z"], []),
    (["--until", "1h"], []),
    (["--until", "2099-01-01T00:00:00Z", "--start-sequence", "100"], [100]),
    (["--filter", "LOW.b", "--end-sequence", "53"], [51, 52]),
    (["--filter", "LOW.a,LOW.b", "--start-sequence", "50", "--end-sequence", "52"], [50, 51]),
    (["--filter", "LOW.none"], []),
]


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_a_part_is_exported_of_every_kind_of_stream(cli: Cli, name: str, retention: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.*", "--retention", retention, "--allow-direct")
    cli("consumer", "add", name, "keeps")  # an interest stream lets go of what nobody wants
    for letter in "ab":
        cli("pub", f"{name}.{letter}", "x", "--count", 50)
    for arguments, expected in PARTS:
        records = cli("export", name, *(argument.replace("LOW", name) for argument in arguments)).records
        assert [record["sequence"] for record in records] == expected, arguments
    assert cli.json("stream", "info", name)["state"]["messages"] == 100
    assert cli.json("consumer", "ls", name, "--names") == ["keeps"]


def test_an_empty_stream_is_an_empty_file_with_columns(cli: Cli, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.parquet"
    assert "Exported 0 messages" in cli("export", stream, "-o", file).out
    assert pq.read_table(file).num_columns == 6


def test_deleted_messages_are_left_out(cli: Cli, filled: str) -> None:
    cli("stream", "purge", filled, "--subject", f"{filled.lower()}.b", "--force")
    assert len(cli("export", filled).records) == 50


def test_bytes_that_are_no_text_survive(cli: Cli, stream: str, tmp_path: Path) -> None:
    cli("pub", f"{stream.lower()}.x", stdin=b"\xff\xfe\x00")
    file = tmp_path / "raw.parquet"
    cli("export", stream, "-o", file)
    assert pq.read_table(file)["data"].to_pylist() == [b"\xff\xfe\x00"]


def test_a_file_that_is_there_is_replaced_only_when_it_is_meant(
    cli: Cli, filled: str, tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    assert "Add --force" in cli.fails("export", filled, "-o", file, code=2)
    assert file.read_text() == "precious"
    cli("export", filled, "-o", file, "--force")
    assert len(file.read_text().splitlines()) == 100


def test_a_work_queue_without_direct_gets_says_how_to_allow_them(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", name, "--retention", "work", "--no-direct")
    cli("pub", name, "x")
    line = cli.fails("export", name, code=1)
    assert f"`jetspark stream edit {name} --allow-direct`" in line


def test_without_pyarrow_it_says_what_to_install(
    cli: Cli, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
    line = cli.fails("export", stream, "-o", tmp_path / "x.parquet", code=1)
    assert "pip install 'jetspark[spark]'" in line
    assert list(tmp_path.glob("*x.parquet*")) == []
