"""The atomic batch, as blocking programs see it. Twin of `jetstream/publish/atomic.py`."""

from __future__ import annotations

from typing import Self, Unpack

from jetspark.blocking.mirror import Twin, calls, mirrors
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish import atomic as aio
from jetspark.jetstream.publish.headers import Expectations
from jetspark.wire.headers import HeadersLike

__all__ = ["AtomicBatch"]


@mirrors(aio.AtomicBatch)
class AtomicBatch(Twin[aio.AtomicBatch]):
    @property
    def ack(self) -> PubAck | None:
        """The acknowledgement of the batch; None until it is committed."""
        return self._inner.ack

    def __len__(self) -> int:
        return len(self._inner)

    def add(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> None:
        self._inner.add(subject, data, headers=headers, msg_id=msg_id, **expectations)

    commit = calls(aio.AtomicBatch.commit)

    def __enter__(self) -> Self:
        return self

    __exit__ = calls(aio.AtomicBatch.__aexit__)
