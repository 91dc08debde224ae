"""The stream and the subjects of an object store. Pure."""

from __future__ import annotations

import base64
from typing import Final

from jetspark.errors import UsageError
from jetspark.wire.subjects import check_text

__all__ = ["STORE_PREFIX", "chunk_subject", "meta_subject", "object_stream"]

#: The names of the streams of object stores begin with it.
STORE_PREFIX: Final = "OBJ_"


def object_stream(bucket: str) -> str:
    """The stream of a bucket."""
    return f"{STORE_PREFIX}{bucket}"


def chunk_subject(bucket: str, nuid: str) -> str:
    """The subject of the chunks of an object."""
    return f"$O.{bucket}.C.{nuid}"


def meta_subject(bucket: str, name: str) -> str:
    """The subject of the metadata of an object. Raises `UsageError`."""
    if not check_text(name, "name"):
        raise UsageError("name of an object must not be empty")
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
