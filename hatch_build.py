"""The hooks of the build: the compiled part, and the README of the package.

`jetspark.wire.compiled` is compiled where a C compiler is. Without one, Python is used. Links of the README
to files become links to the repository, because PyPI has no files.

`python hatch_build.py src` compiles it in that directory, with the CFLAGS of the environment.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

MODULE = "jetspark.wire.compiled"


class CompiledHook(BuildHookInterface[Any]):
    """Adds the compiled module to a wheel, and to the sources of an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile it. Failing is not an error: jetspark needs no compiler."""
        if self.target_name != "wheel" or os.environ.get("JETSPARK_PURE", "0") not in ("", "0"):
            return
        try:
            made = compile_in(Path(self.root) / "src")
        except Exception as error:
            self.app.display_warning(f"jetspark is installed without its compiled part: {error}")
            return
        build_data["artifacts"].append(str(made.relative_to(self.root)))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


class ReadmeHook(MetadataHookInterface):
    """README.md as the description of the package."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text()
        if repository := metadata.get("urls", {}).get("Repository"):
            text = absolute_links(text, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute_links(text: str, repository: str) -> str:
    """Markdown whose links to files lead to the repository."""
    return re.sub(r"\]\((?![a-z]+:|#)([^()\s]+)\)", rf"]({repository}/blob/main/\1)", text)


def compile_in(source: Path) -> Path:
    """Compile the module beside its source; the file that was made."""
    path = source / MODULE.replace(".", "/")
    made = path.with_name(path.name + sysconfig.get_config_var("EXT_SUFFIX"))
    made.unlink(missing_ok=True)  # One of an older source must not be used.
    with tempfile.TemporaryDirectory() as place:
        extension = Extension(MODULE, [str(path.with_suffix(".pyx"))], extra_compile_args=["-O3"])
        modules = cythonize([extension], build_dir=place, quiet=True)
        command = build_ext(Distribution({"ext_modules": modules}))
        command.build_lib, command.build_temp = str(source), place
        command.ensure_finalized()
        command.run()
    return made


if __name__ == "__main__":
    print(compile_in(Path(sys.argv[1]).resolve()))
