"""Operations on many frames at once. A list of frames is one read of the socket, or a whole buffer.

Everything that looks at every message on its way to the user is here, so that the compiled twin can do it
without an object per field.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from jetspark.wire.frames import AnyFrame, MsgFrame

__all__ = [
    "Columns",
    "acks",
    "arrow_columns",
    "by_subscription",
    "header_column",
    "pub_acks",
    "redeliveries",
    "replies_start_with",
    "total_size",
]

#: Buffers of an Arrow batch: offsets and bytes of the subjects, the same of the payloads, sequences, times in
#: microseconds; and, if asked for, of the headers: the first of each message, how many, offsets and bytes of
#: the names, the first value of each, offsets and bytes of the values.
Columns: TypeAlias = tuple[
    bytes, bytes, bytes, bytes, bytes, bytes, tuple[bytes, int, bytes, bytes, bytes, bytes, bytes] | None
]

_sid = attrgetter("sid")

#: The plain answer of a server to a publish: stream and sequence alone. An answer that names no stream comes
#: from another client.
_TEXT = rb"[ !#-\[\]-~]"
_PLAIN_ACK = re.compile(
    rb'\{"stream":"%b+",(?: ?"domain":"%b*",)? ?"seq":[1-9][0-9]{0,17}\}' % (_TEXT, _TEXT)
)
_NUMBER = re.compile(rb"[0-9]{1,18}")


def by_subscription(frames: list[AnyFrame]) -> list[tuple[bytes | None, list[AnyFrame]]]:
    """The messages of each subscription, with its id; None for other frames, which keep their places."""
    groups: list[tuple[bytes | None, list[AnyFrame]]] = []
    known: dict[bytes, list[AnyFrame]] = {}
    for sid, run in groupby(frames, _sid):
        if sid in known:
            known[sid] += run
            continue
        group = list(run)
        groups.append((sid, group))
        if sid is None:
            known.clear()
        else:
            known[sid] = group
    return groups


def total_size(frames: list[MsgFrame]) -> int:
    """Their size as the server counts it: subjects, replies, headers and payloads."""
    return sum(
        [len(frame.subject) + len(frame.reply) + len(frame.header) + len(frame.data) for frame in frames]
    )


def replies_start_with(frames: list[MsgFrame], prefix: bytes) -> bool:
    """Whether all their replies start so."""
    return all(frame.reply.startswith(prefix) for frame in frames)


def redeliveries(frames: list[MsgFrame], names: bytes) -> int:
    """How many of them were delivered before; -1 unless all of them can be acknowledged.

    By their replies, a consumer delivered them. `names` are those of its stream and of itself, as
    `ORDERS.worker`; empty for any consumer. No status is delivered so: it has no reply.
    """
    find = _ack_subject(names).fullmatch
    again = 0
    for frame in frames:
        match = find(frame.reply)
        if match is None:
            return -1
        group = match.lastindex or 0
        # Five numbers of 64 bits, with a dot before each, are not longer.
        if len(match[group]) > 105:
            return -1
        again += 1 - group & 1
    return again


def acks(frames: list[MsgFrame], kind: bytes) -> bytes:
    """The acknowledgements of all of them, to be written at once; empty when one has no such reply."""
    if not replies_start_with(frames, b"$JS.ACK."):
        return b""
    return b"".join([b"PUB %b %d\r\n%b\r\n" % (frame.reply, len(kind), kind) for frame in frames])


@lru_cache(maxsize=256)
def _ack_subject(names: bytes) -> re.Pattern[bytes]:
    """Matches the acknowledgement subjects of a consumer: version 1 has 9 tokens, version 2 at least 11.

    The group of the numbers is odd for a first delivery, and even for others.
    """
    consumer = re.escape(names) or rb"[^.]*\.[^.]*"
    numbers = rb"(?:(\.1(?:\.[0-9]+){4})|((?:\.[0-9]+){5}))"
    return re.compile(
        rb"\$JS\.ACK\.(?:%b%b|[^.]*\.[^.]*\.%b%b(?:\..*)?)" % (consumer, numbers, consumer, numbers),
        re.DOTALL,
    )


def pub_acks(frames: list[MsgFrame], start: int) -> list[int]:
    """For each plain publish ack, the number that its subject is from `start` on; 0 for other messages."""
    return [
        int(frame.subject[start:])
        if not frame.header and _PLAIN_ACK.fullmatch(frame.data) and _NUMBER.fullmatch(frame.subject, start)
        else 0
        for frame in frames
    ]


def arrow_columns(frames: list[MsgFrame], headers: bool) -> Columns | None:
    """The buffers of an Arrow batch; None to build it column by column, which is faster in Python."""
    return None


def header_column(frames: list[MsgFrame], name: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Validity, offsets and bytes of the first value of a header in each message; None as `arrow_columns`."""
    return None
