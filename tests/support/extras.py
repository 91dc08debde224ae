"""An environment without optional dependencies: in its processes, these modules cannot be imported."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["SPARK", "without"]

#: What `jetspark[spark]` installs.
SPARK = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")

#: Python runs it at its start, before anything else.
_SITE = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_other(name, path=None, target=None):
    return None if name.partition(".")[0] in {modules!r} else find_spec(name, path, target)

PathFinder.find_spec = find_other
"""


def without(directory: Path, *modules: str) -> dict[str, str]:
    """Environment variables for a Python in which these modules are not installed."""
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(_SITE.format(modules=modules))
    return {"PYTHONPATH": os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])}
