"""The metadata of an object: as users give it, and as it is stored. No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from typing import Annotated, ClassVar, Final

import msgspec

from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.model.base import Model, UInt, decode_object

__all__ = [
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectOptions",
    "claimed_nuid",
    "digest_text",
    "same_digest",
    "stored_info",
]

#: ADR-20: the size of a chunk in bytes.
CHUNK_SIZE: Final = 128 * 1024
#: An id of chunks: one token of a subject, without wildcards.
_NUID: Final = re.compile(r"[^\s.*>\x00-\x20\x7f]{0,128}")
_SHA_256: Final = "SHA-256="


class ObjectLink(Model, frozen=True, kw_only=True):
    """Another object, or another bucket."""

    #: Name of the bucket.
    bucket: str
    #: Name of the object; None for the whole bucket.
    name: str | None = None


class ObjectOptions(Model, frozen=True, kw_only=True):
    """How an object is stored."""

    #: The target, if the object is a link.
    link: ObjectLink | None = None
    #: Bytes in a chunk.
    max_chunk_size: UInt | None = None


class ObjectMeta(Model, frozen=True, kw_only=True):
    """The metadata that users give to an object. Only the name is required."""

    #: Any text that is not empty.
    name: str
    #: Free text.
    description: str | None = None
    #: Names, each with its values.
    headers: dict[str, list[str]] = msgspec.field(default_factory=dict)
    #: Names and values.
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    #: Bytes in a chunk, when it is stored; 128 KiB by default.
    chunk_size: Annotated[int, msgspec.Meta(ge=1, le=64 * 1024 * 1024)] = CHUNK_SIZE


class ObjectInfo(Model, frozen=True, kw_only=True):
    """An object, as its bucket describes it."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"size", "chunks", "nuid"})

    #: Its name.
    name: str
    #: Name of the bucket.
    bucket: str
    #: Its unique id: another one for each put.
    nuid: str = ""
    #: Its size in bytes.
    size: UInt = 0
    #: How many chunks it has.
    chunks: UInt = 0
    #: `SHA-256=` and the digest of its data in base64.
    digest: str = ""
    #: Whether it was deleted.
    deleted: bool = False
    #: Free text.
    description: str | None = None
    #: Names, each with its values.
    headers: dict[str, list[str]] = msgspec.field(default_factory=dict)
    #: Names and values.
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    #: How it is stored.
    options: ObjectOptions | None = None
    #: When it was stored or changed, UTC. Not stored itself: the time of the message.
    modified: datetime | None = msgspec.field(name="mtime", default=None)

    @property
    def link(self) -> ObjectLink | None:
        """The target of a link; None for an object with data."""
        return self.options.link if self.options is not None else None


def stored_info(data: bytes, modified: datetime, bucket: str) -> ObjectInfo:
    """The info in a stored message of `bucket`. Raises `RemoteProtocolError`.

    Any client may store anything there, and chunks are purged by `nuid`: with a wildcard in it, all of them.
    """
    wire = decode_object(data)
    wire.pop("mtime", None)
    info = ObjectInfo.from_wire(wire)
    if info.bucket != bucket:
        raise _unreadable(bucket, f"its bucket is {info.bucket[:80]!r}")
    if not _NUID.fullmatch(info.nuid) or (info.chunks and not info.nuid):
        raise _unreadable(bucket, f"its nuid is {info.nuid[:80]!r}")
    return msgspec.structs.replace(info, modified=modified)


def claimed_nuid(data: bytes) -> str | None:
    """The id of chunks in metadata whose rest cannot be read; None without a valid one."""
    try:
        nuid = decode_object(data).get("nuid")
    except RemoteProtocolError:
        return None
    return nuid if isinstance(nuid, str) and nuid and _NUID.fullmatch(nuid) else None


def _unreadable(bucket: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the metadata of an object of bucket {bucket} cannot be read: {reason}",
        hint="Put or delete the object: that replaces its metadata",
    )


def digest_text(digest: bytes) -> str:
    """A digest as it is stored."""
    return _SHA_256 + base64.urlsafe_b64encode(digest).decode()


def same_digest(text: str, digest: bytes) -> bool:
    """Whether a stored digest is this one. Raises `RemoteProtocolError` for one of another kind."""
    if text[: len(_SHA_256)].upper() != _SHA_256:
        raise RemoteProtocolError(f"not a digest of the kind SHA-256: {text[:80]!r}")
    encoded = text[len(_SHA_256) :].rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True) == digest
    except binascii.Error:
        return False
