"""Where Spark starts from: a directory of the user's own, and an archive that one job writes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from jetspark.logs.job.spark_home import ClassArchive, use_spark_home


def java_that_writes(file: Path | None) -> subprocess.Popen[bytes]:
    """A process that ends when its input does, as Java does for Spark."""
    command = "cat" if file is None else f"cat; echo classes > '{file}'"
    return subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE)


def file_of(options: str, option: str) -> Path:
    found = re.match(rf'"-XX:{option}=(.+?)"', options)
    assert found is not None
    return Path(found[1])


def test_the_first_job_writes_the_archive_and_the_next_one_reads_it(tmp_path: Path) -> None:
    first, beside = ClassArchive(tmp_path), ClassArchive(tmp_path)
    assert first.options(write=False) == ""
    written = file_of(first.options(write=True), "ArchiveClassesAtExit")
    assert beside.options(write=True) == ""  # Only one writes.
    first.keep(java_that_writes(written))
    read = file_of(ClassArchive(tmp_path).options(write=True), "SharedArchiveFile")
    assert (read.read_text(), written.exists()) == ("classes\n", False)


def test_a_java_that_writes_no_archive_leaves_it_to_the_next_job(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.options(write=True)
    archive.keep(java_that_writes(None))
    assert "ArchiveClassesAtExit" in ClassArchive(tmp_path).options(write=True)


def test_the_home_is_in_the_cache_of_the_user_unless_others_can_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def used() -> tuple[ClassArchive | None, Path]:
        monkeypatch.delenv("SPARK_HOME", raising=False)
        return use_spark_home(), Path(os.environ["SPARK_HOME"])

    archive, home = used()
    assert archive is not None
    assert home.is_relative_to(tmp_path)
    assert ((home / "jars").is_dir(), (home / "python").exists()) == (True, False)
    assert used()[1] == home
    home.chmod(0o777)
    archive, other = used()
    assert archive is None
    assert not other.is_relative_to(tmp_path)
    assert use_spark_home() is None  # SPARK_HOME is set.
