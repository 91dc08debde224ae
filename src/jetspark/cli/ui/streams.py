"""The standard streams as the commands need them, whatever the shell made of them.

An error of standard output has its file name, so that `describe` recognizes it. Characters that the encoding
lacks are escaped.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Any, Final

__all__ = ["STDOUT", "forget_stdout", "is_pipe", "prepare_streams"]

#: The file name of errors of standard output.
STDOUT: Final = "stdout"


class _Stdout(io.FileIO):
    """File descriptor 1. A write that fails says that it was standard output."""

    #: Whether the rest goes nowhere.
    forgotten = False

    def write(self, data: Any) -> int:
        if self.forgotten:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, STDOUT) from None


class _Closed(io.RawIOBase):
    """Standard output that the shell closed, as with `>&-`."""

    forgotten = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.forgotten:
            return len(data)
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STDOUT)


def prepare_streams() -> None:
    """Replace the standard streams of this process, unless a caller has already done so, as a test does.

    Standard output is always buffered: an unbuffered write to a full pipe is cut short without an error.
    """
    if sys.stdout is not sys.__stdout__:
        return
    # Open for as long as the process lives. Standard input first: it gets its own number.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)  # Takes its number, so that no connection gets it.
        sys.stdout = _text(io.BufferedWriter(_Closed()), "utf-8")
    else:
        raw = _Stdout(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = _text(io.BufferedWriter(raw), sys.stdout.encoding)


def _text(buffer: io.BufferedWriter, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=buffer.isatty())


def forget_stdout() -> None:
    """Write the rest of standard output to nowhere: the interpreter flushes it at exit."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stdout | _Closed):
        raw.forgotten = True


def is_pipe(stream: Any) -> bool:
    """Whether another program reads what is written."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
