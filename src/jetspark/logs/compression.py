"""Compressed payloads, named by `Content-Encoding` in any case. zstd needs Python 3.14 or a package.

Decompressed data is limited in size, because any publisher may have sent it.
"""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

from jetspark.errors import UsageError

__all__ = ["ENCODINGS", "compressor", "decompress"]

ENCODINGS: Final = ("gzip", "zstd")
_LEVEL: Final = 6


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
    """The plain payload. Raises `ValueError` if it is damaged, too large, or zstd where that is missing."""
    unpack = {"gzip": _gunzip, "zstd": _unzstd}.get(encoding.lower())
    if unpack is None:
        raise ValueError(f"unknown Content-Encoding {encoding[:32]!r}")
    return unpack(data, limit)


def _gunzip(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(f"damaged gzip data: {error}") from error
    return _whole(plain, limit, ended=unpacker.eof, encoding="gzip")


def _unzstd(data: bytes, limit: int) -> bytes:
    module = _zstd()
    try:
        if hasattr(module, "frame_content_size"):  # the package zstandard
            if module.frame_content_size(data) > limit:
                raise ValueError(_too_large(limit))
            return bytes(module.ZstdDecompressor().decompress(data, max_output_size=limit))
        unpacker = module.ZstdDecompressor()
        plain = bytes(unpacker.decompress(data, max_length=limit + 1))
    except module.ZstdError as error:
        raise ValueError(f"damaged zstd data, or {_too_large(limit)}: {error}") from error
    return _whole(plain, limit, ended=unpacker.eof, encoding="zstd")


def _whole(plain: bytes, limit: int, *, ended: bool, encoding: str) -> bytes:
    if len(plain) > limit:
        raise ValueError(_too_large(limit))
    if not ended:
        raise ValueError(f"the {encoding} data is cut short")
    return plain


def _too_large(limit: int) -> str:
    return f"more than {limit} bytes when decompressed"


def _zstd() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise UsageError("zstd is not available here", hint="Python 3.14 has it, or `pip install zstandard`")
