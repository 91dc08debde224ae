"""The README of the package: on PyPI, its links lead to the repository."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_links_to_files_lead_to_the_repository() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    made = build.absolute_links((ROOT / "README.md").read_text(), "https://example.org/jetspark")
    links = re.findall(r"\]\(([^()\s]+)\)", made)
    assert len(links) > 20
    assert {link.partition("://")[0] for link in links} == {"https"}
    assert "https://example.org/jetspark/blob/main/docs/spark.md" in links
    assert "https://example.org/jetspark/blob/main/examples" in links
