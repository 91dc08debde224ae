"""Lines as container runtimes write them: which output they belong to, and whether they are complete. No I/O.

```
cri       2026-01-31T12:00:00.123456789Z stdout P text      containerd, CRI-O; `P`: partial, `F`: full
docker    {"log":"text","stream":"stdout","time":"..."}     json-file; a full line ends with a line feed
```

A runtime splits long lines at 16 KB. Parts of one output follow each other, but lines of the other output may
be between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

__all__ = ["CONTAINERS", "ContainerLine", "Unwrap"]


class ContainerLine(NamedTuple):
    """The contents of a line of a runtime."""

    #: `stdout` or `stderr`; empty if the runtime did not write the line.
    output: bytes
    #: Whether the text ends with it. If not, it continues in the next line of this output.
    ended: bool
    #: The text that the container wrote, without a line feed.
    text: bytes


Unwrap: TypeAlias = Callable[[bytes], ContainerLine]

# Further tags may follow after a colon.
_CRI: Final = re.compile(rb"\S+ (stdout|stderr) ([FP])(?::\S+)?(?: |$)")
_DOCKER: Final = re.compile(rb'\{"log":"((?:[^"\\]++|\\[^n]|\\n(?!"))*+)(\\n)?","stream":"(\w+)"')


def _cri(line: bytes) -> ContainerLine:
    found = _CRI.match(line)
    if found is None:
        return ContainerLine(b"", True, line)
    return ContainerLine(found[1], found[2] == b"F", line[found.end() :])


def _docker(line: bytes) -> ContainerLine:
    found = _DOCKER.match(line)
    if found is None:
        return ContainerLine(b"", True, line)
    return ContainerLine(found[3], found[2] is not None, _unescaped(found[1]))


def _unescaped(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    try:
        return msgspec.json.decode(b'"%b"' % text, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):
        return text


CONTAINERS: Final[Mapping[str, Unwrap]] = {"cri": _cri, "docker": _docker}
