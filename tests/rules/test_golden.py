"""The golden files: what is compared, and that a difference is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.golden import FOLDER, compare

TESTS = FOLDER.parent


def compared() -> list[str]:
    """The names of the files that tests compare."""
    sources = (path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    return [name for source in sources for name in re.findall(r'\bgolden\("([\w-]+)"', source)]


def test_the_folder_has_exactly_the_files_that_tests_compare() -> None:
    names = compared()
    assert len(set(names)) == len(names), "two tests write one file"
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.txt" for name in names}


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOLDEN", raising=False)


@pytest.mark.usefixtures("reading")
def test_a_difference_is_shown_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("one\ntwo\nthree\n")
    compare("words", "one\ntwo  \nthree", tmp_path)
    with pytest.raises(pytest.fail.Exception) as caught:
        compare("words", "one\n2\nthree\n", tmp_path)
    assert "words.txt differs: run `make golden` and read the diff" in str(caught.value)
    assert "\n-two\n+2\n" in str(caught.value)


@pytest.mark.usefixtures("reading")
def test_a_missing_file_fails_until_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match="is missing: run `make golden`"):
        compare("words", "one", tmp_path)
    monkeypatch.setenv("GOLDEN", "write")
    compare("words", "one", tmp_path)
    monkeypatch.delenv("GOLDEN")
    compare("words", "one", tmp_path)
