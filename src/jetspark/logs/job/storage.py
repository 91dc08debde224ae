"""Small files in a directory on any file system that Spark can reach."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Storage", "created_without", "is_local", "without_checksums"]


class Storage:
    """A directory, by path or URL. It may not exist yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        assert spark._jvm is not None
        self._jvm = spark._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(spark._jsc.hadoopConfiguration())

    @property
    def url(self) -> str:
        return str(self._path)

    def names(self, pattern: str = "*") -> list[str]:
        return [str(found.getName()) for found in self._find(pattern)]

    def paths(self, pattern: str) -> list[str]:
        """The paths of files: URLs, but for local files without a scheme."""
        return [str(found).removeprefix("file:") for found in self._find(pattern)]

    def read(self, name: str) -> str | None:
        """The text of a file, or None if it does not exist."""
        file = self._at(name)
        if not self._files.exists(file):
            return None
        with closing(self._files.open(file)) as stream:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

    def write(self, name: str, text: str) -> None:
        """Create a file. It appears complete, or not at all."""
        new = self._at(f"{name}.new")
        with closing(self._files.create(new, True)) as stream:
            stream.write(bytearray(text.encode()))
        if not self._files.rename(new, self._at(name)):
            raise OSError(f"cannot write {self._at(name)}")

    def delete(self, pattern: str) -> None:
        for found in self._find(pattern):
            self._files.delete(found, True)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _find(self, pattern: str) -> list[Any]:
        # Escape the directory: its name may contain glob characters, such as `logs[1]`.
        base = re.sub(r"([\[\]{}*?\\])", r"\\\1", str(self._path))
        found = self._files.globStatus(self._jvm.org.apache.hadoop.fs.Path(f"{base}/{pattern}"))
        return [each.getPath() for each in found or ()]


@contextmanager
def created_without(umask: str) -> Iterator[None]:
    """Create files without these permissions. So do processes that start meanwhile, until they end."""
    before = os.umask(int(umask, 8))
    try:
        yield
    finally:
        os.umask(before)


def is_local(path: str) -> bool:
    """Whether a path or URL names a file of this machine."""
    return "://" not in path.removeprefix("file://")


def without_checksums(spark: SparkSession) -> None:
    """Write no `.crc` files beside local files, in this process. Those that exist are still checked."""
    assert spark._jvm is not None
    here = spark._jvm.org.apache.hadoop.fs.Path("file:///")
    here.getFileSystem(spark._jsc.hadoopConfiguration()).setWriteChecksum(False)
