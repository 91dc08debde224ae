"""Escaping for terminals: names and data come from the network, and a terminal obeys what it gets.

Control characters and characters that change the reading direction are shown as `\x1b` or `\u202e`, invalid
UTF-8 as `\xff`. In JSON they are escaped as JSON does.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["escape_json", "escape_line", "escape_payload"]

# C0, DEL, C1; line and paragraph separators; direction marks; lone surrogates.
_UNSAFE: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_ON_A_LINE: Final = re.compile(f"[{_UNSAFE}]")
_IN_A_PAYLOAD: Final = re.compile(f"(?![\n\t])[{_UNSAFE}]")
_IN_JSON: Final = re.compile(f"(?!\n)[{_UNSAFE}]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # an invalid UTF-8 byte, as `surrogateescape` keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def escape_line(text: object) -> str:
    """Text on one line, without control characters."""
    return _ON_A_LINE.sub(_escape, str(text))


def escape_payload(data: bytes) -> str:
    """The data of a message, with its line breaks and tabs."""
    return _IN_A_PAYLOAD.sub(_escape, data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))


def escape_json(document: str) -> str:
    """The same JSON document, safe for a terminal."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
