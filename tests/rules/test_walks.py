"""The names in CONTRIBUTING.md exist: the walks through the code, and the places where changes go."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.cases import for_each

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NAMES = sorted(set(re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", TEXT)))


def defined(source: str) -> set[str]:
    """Functions, classes, `Class.method` and variables of a module, imported names included."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                found |= {name, *(f"{name}.{each.name}" for each in body if isinstance(each, functions))}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def test_there_are_five_walks_and_a_table_of_changes() -> None:
    walks = TEXT.partition("### Follow a message")[2].partition("### Where does a change go?")
    assert len(re.findall(r"^\*\*", walks[0], re.MULTILINE)) == 5
    assert len(re.findall(r"^\| ", walks[2].partition("\n## ")[0], re.MULTILINE)) > 12
    assert len(NAMES) > 50


@for_each(("file", "name"), NAMES, ids=["::".join(filter(None, pair)) for pair in NAMES])
def test_a_name_of_the_guide_exists(file: str, name: str) -> None:
    homes = [path for path in (ROOT / "src/jetspark" / file, ROOT / file) if path.exists()]
    if not name:
        # A file that is mentioned to be written, or one that every package has.
        assert homes or file in ("metrics.py", "__init__.py"), f"{file} does not exist"
        return
    assert name in defined(homes[0].read_text()), f"{file} has no {name}"
