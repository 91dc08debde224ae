"""Where Spark starts from on this machine: its package without the zip file, and an archive of its classes.

pip installs pyspark twice: as a package, and as a zip file that Spark's Python processes import. Python
compiles modules in a zip file at each start, and a query starts half a dozen processes. A home without the
zip file halves their start-up time.

Java needs half the CPU time to start Spark if it finds the classes in an archive (class data sharing). It
writes one when it ends, so the first job takes some seconds longer. The archive has about 200 MB and is in
the user's cache directory; it may be deleted at any time. Java ignores an archive that does not fit.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from jetspark.errors import Error

__all__ = ["ClassArchive", "check_java", "use_spark_home"]

#: Seconds that Java may take to write an archive.
_LONG: Final = 120.0
#: Java prints warnings about archives on standard output.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


class ClassArchive:
    """The archive in a directory, for the Java that Spark will use."""

    def __init__(self, directory: Path) -> None:
        java = shutil.which("java", path=_java_path()) or ""
        changed = os.stat(java).st_mtime_ns if java else 0
        self._file = directory / f"classes-{_digest(os.path.realpath(java), str(changed))}.jsa"
        self._new = self._file.with_suffix(".new")
        self._lock: int | None = None

    def options(self, *, write: bool) -> str:
        """Java's options to read the archive; or to `write` it, if there is none and no other job does."""
        if self._file.exists():
            return f'"-XX:SharedArchiveFile={self._file}" {_QUIET}'
        if write and self._locked():
            return f'"-XX:ArchiveClassesAtExit={self._new}" {_QUIET}'
        return ""

    def keep(self, java: subprocess.Popen[bytes]) -> None:
        """Stop the Java process that writes the archive, if there is one, and keep the archive."""
        if self._lock is None:
            return
        assert java.stdin is not None
        java.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired, FileNotFoundError):
            java.wait(_LONG)
            self._new.replace(self._file)
        os.close(self._lock)
        self._lock = None

    def _locked(self) -> bool:
        lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True


def check_java() -> None:
    """Raise `Error` if there is no Java for Spark to start."""
    if shutil.which("java", path=_java_path()) is None:
        home = os.environ.get("JAVA_HOME")
        raise Error(
            "Spark needs Java, which is not installed"
            if home is None
            else f"JAVA_HOME is {home}, without bin/java",
            hint="Install Java 17 to 23 (Debian, Ubuntu: `apt install openjdk-21-jre-headless`), "
            "or set JAVA_HOME to its directory",
        )


def use_spark_home() -> ClassArchive | None:
    """Start the next Spark from such a home, unless SPARK_HOME is set. Returns its archive, if it has one."""
    package = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or not (package / "jars").is_dir():
        return None
    kept = _kept_home(package)
    home = kept or Path(tempfile.mkdtemp(prefix="jetspark-spark-"))
    if kept is None:
        atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars", "sbin"):
        if (package / name).is_dir():
            with contextlib.suppress(FileExistsError):
                (home / name).symlink_to(package / name)
    os.environ["SPARK_HOME"] = str(home)
    return None if kept is None else ClassArchive(kept)


def _kept_home(package: Path) -> Path | None:
    """A directory for this package that stays; None if there is none that only this user can change."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jetspark"
        home = cache / f"spark-{_digest(str(package), pyspark.__version__)}"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
    except (OSError, RuntimeError):
        return None
    return home if found.st_uid == os.getuid() and not found.st_mode & 0o022 else None


def _java_path() -> str | None:
    """The directories in which Spark finds Java; None: those of PATH."""
    home = os.environ.get("JAVA_HOME")
    return None if home is None else os.path.join(home, "bin")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
