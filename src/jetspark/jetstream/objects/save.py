"""An object as a file, which appears when it is complete."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from jetspark.errors import UsageError
from jetspark.jetstream.objects.reader import ObjectReader
from jetspark.wire.subjects import check_text

__all__ = ["as_path", "save"]


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path. Raises `UsageError`."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"path must be a path, not {type(path).__name__}")
    text = check_text(os.fspath(path), "path")
    if "\0" in text:
        raise UsageError(f"path must not contain NUL: {text!r}")
    return Path(text)


async def save(reader: ObjectReader, path: Path, on_chunk: Callable[[int], None] | None = None) -> None:
    """Write the data to a new file beside `path`, and put it there when its digest was checked.

    `on_chunk` is called with the size of each chunk that was written.
    """
    part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    file = await asyncio.to_thread(part.open, "xb")
    try:
        async for chunk in reader:
            await asyncio.to_thread(file.write, chunk)
            if on_chunk is not None:
                on_chunk(len(chunk))
        await asyncio.to_thread(file.close)
        await asyncio.to_thread(part.replace, path)
    finally:
        file.close()
        part.unlink(missing_ok=True)
