"""The names of buckets, keys and filters: which are valid, and what stream and subjects they have. Pure."""

from __future__ import annotations

import re
from typing import Final

from jetspark.errors import UsageError
from jetspark.wire.subjects import check_filter, check_text

__all__ = ["BUCKET_PREFIX", "check_bucket", "check_key", "check_key_filter", "key_prefix", "stream_of"]

#: The names of the streams of buckets begin with it.
BUCKET_PREFIX: Final = "KV_"
_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_KEY: Final = re.compile(r"[-/_=A-Za-z0-9]+(?:\.[-/_=A-Za-z0-9]+)*")
_FILTER: Final = re.compile(r"(?:\*|[-/_=A-Za-z0-9]+)(?:\.(?:\*|[-/_=A-Za-z0-9]+))*(?:\.>)?|>")
_CHARACTERS: Final = "letters, digits, - / _ = and dots between them"


def check_bucket(bucket: str, argument: str = "bucket") -> str:
    """Return a valid name of a bucket. Raises `UsageError`."""
    if _BUCKET.fullmatch(check_text(bucket, argument)) is None:
        raise UsageError(f"{argument} {bucket[:200]!r} is not valid; accepted: letters, digits, - and _")
    return bucket


def check_key(key: str, argument: str = "key") -> str:
    """Return a valid key. Raises `UsageError`."""
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        check_text(key, argument)
        raise UsageError(
            f"{argument} {key[:200]!r} is not valid; accepted: {_CHARACTERS}",
            hint="With codec=EscapedKeys() any text is a key",
        )
    return key


def check_key_filter(keys: str, argument: str = "filters") -> str:
    """Return a valid filter: a key in which `*` stands for one part, a final `>` for one or more."""
    if _FILTER.fullmatch(check_text(keys, argument)) is None:
        raise UsageError(f"{argument}: {keys[:200]!r} is not valid; accepted: {_CHARACTERS}; * and >")
    check_filter(keys, argument)
    return keys


def stream_of(bucket: str) -> str:
    """The stream of a bucket."""
    return f"{BUCKET_PREFIX}{bucket}"


def key_prefix(bucket: str) -> str:
    """The prefix of the subjects of all keys of a bucket."""
    return f"$KV.{bucket}."
