"""The frames that wait to be written. `core/outbox.py` decides when that is; here they are only kept."""

from __future__ import annotations

from typing import Final

from jetspark.wire.encode import pub
from jetspark.wire.frames import MsgFrame
from jetspark.wire.subjects import encode_subject

__all__ = ["MAX_SUBJECTS", "FrameQueue"]

#: How many subjects the compiled twin caches, encoded. Here `encode_subject` does it.
MAX_SUBJECTS: Final = 1024


class FrameQueue:
    """Frames in order, and their size in bytes."""

    __slots__ = ("acked", "frames", "published", "room", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        #: `publish` queues a message only if fewer than this many bytes wait afterwards.
        self.room = 0
        #: How many messages `publish` has queued, and how many acknowledgements `ack` has.
        self.published = 0
        self.acked = 0

    def publish(self, subject: object, data: object, max_payload: int) -> int:
        """Queue a PUB and return the size; 0 if it is not queued. Raises `UsageError` for an invalid subject.

        It is not queued without room, if the payload is too large, and for other types than str and bytes.
        """
        if type(subject) is not str or type(data) is not bytes or len(data) > max_payload:
            return 0
        frame = pub(encode_subject(subject), b"", data)
        size = self.size + len(frame)
        if size >= self.room:
            return 0
        self.frames.append(frame)
        self.size = size
        self.published += 1
        return size

    def ack(self, frame: MsgFrame) -> int:
        """Queue the acknowledgement of a message and return the size; 0 if it is not queued.

        It is not queued without room, or if the reply subject is not one of JetStream's.
        """
        reply = frame.reply
        if not reply.startswith(b"$JS.ACK."):
            return 0
        written = pub(reply, b"", b"+ACK")
        size = self.size + len(written)
        if size >= self.room:
            return 0
        self.frames.append(written)
        self.size = size
        self.acked += 1
        return size
