"""The position file: what is kept of what is gone, and what ids are made of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jetspark.logs.agent.positions import FilePosition, Positions

WEEK = 7 * 86400.0


def position(inode: int, **fields: Any) -> FilePosition:
    return FilePosition(path=f"/log/{inode}", device=1, inode=inode, **fields)


def test_what_is_followed_is_kept_though_the_clock_has_jumped(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "p.json")
    long_ago = time.time() - WEEK - 1
    entries = [position(1, seen=long_ago), position(2, seen=long_ago), position(3, seen=time.time())]
    positions.entries = {entry.key: entry for entry in entries}
    positions.forget_gone({(1, 1)})
    assert list(positions.entries) == [(1, 1), (1, 3)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "p.json")
    positions.load()
    assert positions.first_use
    entry = position(1, head="h", offset=7, tail=b"\xff\n", seen=1.0)
    positions.entries = {entry.key: entry}
    for since in (12.5, None):
        positions.write(*positions.encode(since))
        again = Positions(tmp_path / "p.json")
        positions.close()
        again.load()
        assert (again.first_use, again.since, again.entries) == (False, since, {entry.key: entry})
        again.close()


def test_a_file_that_moves_to_another_device_keeps_its_identity(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "p.json")
    entry = position(5, head="h")
    positions.entries = {entry.key: entry}
    identity = entry.identity
    for device in (2, 3, 1):
        positions.move(entry, (device, 5))
        assert (entry.identity, list(positions.entries)) == (identity, [(device, 5)])
