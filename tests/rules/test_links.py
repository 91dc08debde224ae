"""The relative links of the Markdown pages lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.cases import for_each

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def prose(page: Path) -> str:
    """The page without its code blocks, whose brackets and `#` are neither links nor headings."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", prose(page), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        anchor = plain.replace(" ", "-")
        repeats = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in found)
        found.add(f"{anchor}-{repeats}" if repeats else anchor)
    return found


def relative_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: +(\S+)", prose(page), re.MULTILINE)
    return [target for pair in targets for target in pair if target and not re.match(r"[a-z]+:", target)]


LINKS = sorted({(page, target) for page in PAGES for target in relative_links(page)})


def test_the_pages_have_links() -> None:
    assert len(LINKS) > 40


@for_each(("page", "target"), LINKS, ids=[f"{page.relative_to(ROOT)}->{target}" for page, target in LINKS])
def test_a_link_resolves(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    assert file.is_relative_to(ROOT), f"{target} leads out of the repository"
    assert file.exists(), f"{target}: no such file"
    if anchor:
        assert anchor in anchors(file), f"{target}: no such heading"
