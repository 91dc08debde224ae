"""Codecs for keys: how text that is not a valid key is stored as one. Pure.

A key is `-/_=A-Za-z0-9` with dots between its parts. A codec turns any other text into such a key and back.
Every client of a bucket must use the same codec. `Base64Keys` and `PathKeys` store the same as the
codecs of Synadia's Orbit libraries.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, Protocol

__all__ = ["Base64Keys", "EscapedKeys", "KeyCodec", "PathKeys"]

_PLAIN: Final = re.compile(rb"[-/_A-Za-z0-9]+")
_ESCAPED: Final = re.compile(r"=([0-9A-F]{2})")
_WILDCARDS: Final = ("*", ">")
_ROOT: Final = "_root_"


class KeyCodec(Protocol):
    """How keys are stored. Each method may raise `ValueError`."""

    def encode(self, key: str) -> str:
        """The key that is stored."""

    def decode(self, stored: str) -> str:
        """The key that the user gave. The stored text as it is, if the codec raises here."""

    def encode_filter(self, keys: str) -> str:
        """A filter for stored keys: `*` and `>` are wildcards where they stand alone between dots."""


class EscapedKeys:
    """Any text is a key. Characters that are not allowed become `=` and two hexadecimal digits per byte.

    Dots still separate parts, so that filters work; `my key.é` is stored as `my=20key.=C3=A9`.
    """

    def encode(self, key: str) -> str:
        """The key with other characters escaped; an empty part is a single `=`."""
        return ".".join(_escape(part) for part in key.split("."))

    def decode(self, stored: str) -> str:
        """The key without escapes."""
        return ".".join(_unescape(part) for part in stored.split("."))

    def encode_filter(self, keys: str) -> str:
        """The filter with other characters escaped."""
        return ".".join(part if part in _WILDCARDS else _escape(part) for part in keys.split("."))


class Base64Keys:
    """Each part of a key in URL-safe base64 without padding. No part may be empty."""

    def encode(self, key: str) -> str:
        """The key in base64."""
        return ".".join(_to_base64(part) for part in key.split("."))

    def decode(self, stored: str) -> str:
        """The key in plain text."""
        return ".".join(_from_base64(part) for part in stored.split("."))

    def encode_filter(self, keys: str) -> str:
        """The filter in base64."""
        return ".".join(part if part in _WILDCARDS else _to_base64(part) for part in keys.split("."))


class PathKeys:
    """Paths as keys: `/etc/hosts` is stored as `_root_.etc.hosts`. A slash at the end is dropped.

    Paths must not contain dots, which would come back as slashes.
    """

    def encode(self, key: str) -> str:
        """The path with dots for slashes."""
        if key == "/":
            return _ROOT
        if key.startswith("/"):
            key = f"{_ROOT}.{key[1:]}"
        return key.removesuffix("/").replace("/", ".")

    def decode(self, stored: str) -> str:
        """The path with its slashes."""
        if stored == _ROOT:
            return "/"
        path = stored.replace(".", "/")
        return path.removeprefix(_ROOT) if path.startswith(f"{_ROOT}/") else path

    def encode_filter(self, keys: str) -> str:
        """The same as for a key: `/etc/*` becomes `_root_.etc.*`."""
        return self.encode(keys)


def _escape(part: str) -> str:
    data = part.encode()
    if _PLAIN.fullmatch(data) is not None:
        return part
    plain = b"-/_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return "".join(chr(byte) if byte in plain else f"={byte:02X}" for byte in data) or "="


def _unescape(part: str) -> str:
    if "=" not in part:
        return part
    if part == "=":
        return ""
    pieces = _ESCAPED.split(part)
    if any("=" in text for text in pieces[::2]):
        raise ValueError(f"not an escaped key: {part!r}")
    text = [each.encode() for each in pieces]
    text[1::2] = [bytes.fromhex(digits) for digits in pieces[1::2]]
    return b"".join(text).decode()


def _to_base64(part: str) -> str:
    return base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode()


def _from_base64(part: str) -> str:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True).decode()
    except binascii.Error as error:
        raise ValueError(f"not a key in base64: {part!r}") from error
