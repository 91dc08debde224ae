"""What may reach a terminal. Names, subjects and data come from anybody; a terminal obeys what it is sent.

Control characters and those that turn the reading direction are written as `\x1b` or `\u202e`; bytes that are
no UTF-8 as `\xff`. In JSON they are written as JSON writes them.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["in_json", "on_a_line", "payload"]

# C0, DEL, C1; line and paragraph separators; marks that turn the direction; lone surrogates.
_UNSAFE: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_ON_A_LINE: Final = re.compile(f"[{_UNSAFE}]")
_IN_A_PAYLOAD: Final = re.compile(f"(?![\n\t])[{_UNSAFE}]")
_IN_JSON: Final = re.compile(f"(?!\n)[{_UNSAFE}]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, as `surrogateescape` keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def on_a_line(text: object) -> str:
    """Text that stays on its line and does nothing to the terminal."""
    return _ON_A_LINE.sub(_escape, str(text))


def payload(data: bytes) -> str:
    """The data of a message; its lines and tabs stay."""
    return _IN_A_PAYLOAD.sub(_escape, data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))


def in_json(document: str) -> str:
    """A JSON document in which nothing can harm a terminal, and that says the same."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
