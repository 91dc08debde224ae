"""Compressed payloads, named by `Content-Encoding` in any case. zstd needs Python 3.14 or a package.

Decompressed data is limited in size, because any publisher may have sent it.
"""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from jetspark.errors import UsageError

__all__ = ["ENCODINGS", "compressor", "decompress"]

ENCODINGS: Final = ("gzip", "zstd")
_LEVEL: Final = 6
#: Bytes to decompress at a time. They limit the result to 8 MiB: 4 bytes of zstd can be a block of 128 KiB.
_SLICE: Final = 256


def compressor(encoding: str) -> Callable[[bytes], bytes]:
    """A function that compresses with this encoding. Raises `UsageError` if it is not available."""
    if encoding == "gzip":
        # Without the time, so that the same line always gives the same bytes.
        return lambda data: gzip.compress(data, _LEVEL, mtime=0)
    if encoding == "zstd":
        return cast("Callable[[bytes], bytes]", _zstd().compress)
    raise UsageError(
        f"compress must be one of {', '.join(ENCODINGS)}, not {encoding!r}", hint="Omit it for no compression"
    )


def decompress(encoding: str, data: bytes, limit: int) -> bytes:
    """The plain payload: that of all gzip members, or zstd frames, one after the other.

    Raises `ValueError` if it is damaged, too large, or zstd where that is missing.
    """
    new: Callable[[], Any]
    name = encoding.lower()
    if name == "gzip":
        new, damage = partial(zlib.decompressobj, wbits=31), zlib.error
    elif name == "zstd":
        module = _zstd()
        new, damage = module.ZstdDecompressor, module.ZstdError
        if module.__name__ == "zstandard":
            new = new().decompressobj
    else:
        raise ValueError(f"unknown Content-Encoding {encoding[:32]!r}")
    try:
        return _unpack(new, data, limit, name)
    except damage as error:
        raise ValueError(f"damaged {name} data: {error}") from error


def _unpack(new: Callable[[], Any], data: bytes, limit: int, name: str) -> bytes:
    """The plain data. `new` makes an object that decompresses one member."""
    plain, member = bytearray(), new()
    for start in range(0, len(data), _SLICE):
        piece = data[start : start + _SLICE]
        while piece:
            if member.eof:
                member = new()
            plain += member.decompress(piece)
            if len(plain) > limit:
                raise ValueError(f"more than {limit} bytes when decompressed")
            piece = member.unused_data
    if not member.eof:
        raise ValueError(f"the {name} data is cut short")
    return bytes(plain)


def _zstd() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise UsageError("zstd is not available here", hint="Python 3.14 has it, or `pip install zstandard`")
