"""Which messages of a stream: a half-open range of sequences."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = ["StreamRange"]


class StreamRange(msgspec.Struct, frozen=True, kw_only=True):
    """The sequences from `first_seq` up to, and without, `next_seq`, of the stream that was created then."""

    stream: str
    created: datetime
    first_seq: int
    next_seq: int

    def __len__(self) -> int:
        return max(self.next_seq - self.first_seq, 0)
