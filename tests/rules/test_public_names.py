"""`__all__` says what is public, and says it completely."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import jetspark
from jetspark import blocking, errors
from tests.support.cases import for_each

MODULES = [
    "jetspark",
    *(f"jetspark.{found.name}" for found in pkgutil.iter_modules(jetspark.__path__) if found.name[0] != "_"),
]


def listed(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", []))


def is_ours(value: object) -> bool:
    """Whether a value was made in jetspark: a class or function by its module, a constant always."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "jetspark").startswith(
        "jetspark"
    )


def public_names(module: ModuleType) -> set[str]:
    """The names a user would take for public: no underscore, no submodule, nothing only imported.

    A package's `__init__` offers what it imports from its own modules; a plain module offers only
    what it defines.
    """
    is_package = hasattr(module, "__path__")
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in ("TYPE_CHECKING", "annotations")
        and is_ours(value)
        and (is_package or getattr(value, "__module__", module.__name__) == module.__name__)
    }


def ruff_order(name: str) -> tuple[int, str]:
    """The order that ruff's RUF022 asks for: CONSTANTS, then Classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@for_each("name", MODULES)
def test_all_is_sorted_and_without_duplicates(name: str) -> None:
    names = listed(importlib.import_module(name))
    assert names == sorted(set(names), key=ruff_order)


@for_each("name", MODULES)
def test_every_listed_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    assert [listed_name for listed_name in listed(module) if not hasattr(module, listed_name)] == []


@for_each("name", MODULES)
def test_every_public_name_is_listed(name: str) -> None:
    module = importlib.import_module(name)
    assert public_names(module) - set(listed(module)) == set()


def test_every_error_is_importable_from_the_package() -> None:
    assert set(errors.__all__) - set(listed(jetspark)) == set()
    assert [name for name in errors.__all__ if getattr(jetspark, name) is not getattr(errors, name)] == []


def test_type_checkers_see_the_names_that_are_loaded_on_first_use() -> None:
    body = ast.parse(inspect.getsource(jetspark)).body
    [block] = [each for each in body if isinstance(each, ast.If) and isinstance(each.test, ast.Name)]
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]
    seen = {alias.asname: f"{each.module}" for each in imports for alias in each.names}
    loaded = {name: f"jetspark.{home}" for name, home in jetspark._HOMES.items()}
    assert seen == {"blocking": "jetspark", "server": "jetspark", **loaded}


def test_no_two_classes_have_one_name_except_the_blocking_twins() -> None:
    homes: dict[str, list[str]] = {}
    source = Path(jetspark.__file__).parent
    for path in source.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            is_twin = path.is_relative_to(source / "blocking") and node.name in listed(blocking)
            # `client` extends the connection of `core` for users.
            if not is_twin and (node.name, path.name) != ("Connection", "client.py"):
                homes.setdefault(node.name, []).append(str(path.relative_to(source)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
