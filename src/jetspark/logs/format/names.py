"""Names of hosts and files, made safe for subjects, headers and file systems; kinds of files. No I/O.

A host may have any name. Forbidden characters are replaced, and a digest of the true name is appended, so
that two hosts never share a name by accident. The true name is in a header, escaped.
"""

from __future__ import annotations

import hashlib
import re
import stat
from typing import Final

__all__ = ["digest", "file_name", "header_text", "kind_of_file", "partition_of", "subject_token"]

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_REPLACED: Final = re.compile(r"[^A-Za-z0-9_-]")
#: Readable characters to keep of a replaced name.
_READABLE: Final = 40
# C0, DEL, C1; line separators; marks that change the text direction; invalid UTF-8.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: The longest name in a header. Longer ones are cut, and a digest of the whole is appended.
_LONGEST_HEADER: Final = 1024


def digest(text: str, length: int = 12) -> str:
    """The first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def subject_token(name: str) -> str:
    """The name as one token of a subject: itself if it is `[A-Za-z0-9_-]{1,64}`, else with a digest."""
    return name if _TOKEN.fullmatch(name) else _with_digest(name)


def file_name(name: str) -> str:
    """The name as a file name: itself if it is `[A-Za-z0-9._-]{1,128}` without a leading dot."""
    return name if _FILE.fullmatch(name) else _with_digest(name)


def _with_digest(name: str) -> str:
    return f"{_REPLACED.sub('_', name)[:_READABLE]}-{digest(name)}"


def header_text(name: str) -> str:
    """The true name as a header value: control characters and invalid bytes as `\\x1b`, `\\u202e`."""
    if len(name) > _LONGEST_HEADER:
        name = f"{name[:_LONGEST_HEADER]}...{digest(name)}"
    return _UNSAFE.sub(_escape, name)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # an invalid byte, as `surrogateescape` keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def kind_of_file(mode: int) -> str:
    """The name of a kind of file, by its mode."""
    kinds = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for fits, name in kinds if fits(mode)), "a device")


def partition_of(host: str, partitions: int) -> int:
    """The partition of a host; it depends only on the name and the number of `partitions`."""
    return int(digest(host, 16), 16) % partitions
