"""The hooks of MkDocs.

README.md, CHANGELOG.md and CONTRIBUTING.md are pages of the site. Links to other files outside of docs/ lead
to the repository. A page that loads something from another host is an error.
"""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
#: Files outside of docs/, and their pages.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
#: A link of Markdown to a file: `[text](target)`.
LINK = re.compile(r"\]\((?![a-z]+:|#)([^()\s#]+)(#[^()\s]*)?\)")
#: What a browser loads by itself, by the tag; `link` only with some values of `rel`.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
FOLLOWED = {"canonical", "prev", "next", "alternate", "edit"}


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Links between files as links between pages, or to the repository."""
    name = page.file.src_uri
    source = next((ROOT / file for file, made in PAGES.items() if made == name), DOCS / name)

    def rewrite(found: re.Match[str]) -> str:
        target, anchor = (source.parent / found[1]).resolve(), found[2] or ""
        outside = str(target.relative_to(ROOT))
        if outside in PAGES:
            depth = name.count("/")
            return f"]({'../' * depth}{PAGES[outside]}{anchor})"
        if target.is_relative_to(DOCS):
            # Also those that do not exist, which MkDocs refuses.
            return f"]({target.relative_to(DOCS)}{anchor})" if name in PAGES.values() else found[0]
        if not target.exists():
            raise PluginError(f"{source.relative_to(ROOT)}: {found[1]}: no such file")
        return f"]({REPOSITORY}/blob/main/{outside}{anchor})"

    return LINK.sub(rewrite, markdown)


def on_post_build(config: Any) -> None:
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix == ".html":
            found = _Loaded(path.read_text()).elsewhere
        elif path.suffix == ".css":
            found = re.findall(r"url\([\"']?((?:https?:)?//[^)\"']*)", path.read_text())
        else:
            continue
        if found:
            raise PluginError(
                f"{path.relative_to(config.site_dir)} loads {', '.join(found)} from another host"
            )


class _Loaded(HTMLParser):
    """What a page loads from other hosts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elsewhere: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        target = given.get(LOADED.get(tag, "")) or ""
        if re.match(r"(https?:)?//", target) and not (tag == "link" and given.get("rel") in FOLLOWED):
            self.elsewhere.append(target)
