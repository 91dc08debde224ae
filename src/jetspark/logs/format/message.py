"""Lines as messages: their subject, their id, their headers. No I/O.

```
subject   <prefix>.<partition>.<host>
headers   Nats-Msg-Id       <host>-<device>-<inode>-<fingerprint>-<generation>-<offset>, and +<length> for
                            a last line without a line feed, because it may still grow;
                            <host>-journal-<input>-<series>-<number> for an entry of the journal
          Jetspark-Host     the true name of the host, escaped
          Jetspark-File     the path, escaped; `-` for standard input, `journal` for the journal
          Jetspark-Offset   where the line begins in the file, in bytes; the number of the entry
          Jetspark-Cut      "true" on a piece of a long line that continues in the next piece
          Content-Encoding  gzip or zstd, if it makes the payload smaller
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jetspark.core.headers import block_pieces
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.jetstream.publish.headers import MSG_ID
from jetspark.logs.format.line import Line
from jetspark.logs.format.names import header_text, partition_of, subject_token
from jetspark.wire.subjects import check_subject

__all__ = ["CUT", "ENCODING", "FILE", "HOST", "OFFSET", "Envelope", "id_prefix", "subject_of"]

HOST: Final = "Jetspark-Host"
FILE: Final = "Jetspark-File"
OFFSET: Final = "Jetspark-Offset"
CUT: Final = "Jetspark-Cut"
ENCODING: Final = "Content-Encoding"


def subject_of(prefix: str, host: str, partitions: int) -> str:
    """The subject of the lines of a host. Raises `UsageError` for an invalid prefix."""
    subject = f"{prefix}.{partition_of(host, partitions)}.{subject_token(host)}"
    check_subject(subject, "prefix")
    return subject


def id_prefix(host: str, identity: str) -> str:
    """The common start of the ids of a file's lines; the offset of the line follows."""
    return f"{subject_token(host)}-{identity}-"


class Envelope:
    """Makes messages from the lines of one file."""

    def __init__(
        self,
        subject: str,
        host: str,
        path: str,
        identity: str,
        *,
        encoding: str = "",
        compress: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._subject = subject
        self._id = id_prefix(host, identity)
        headers = {HOST: header_text(host), FILE: header_text(path), MSG_ID: self._id, OFFSET: ""}

        def pieces(more: dict[str, str]) -> tuple[bytes, ...]:
            return block_pieces({**headers, **more}, MSG_ID, OFFSET)

        self._compress = compress
        self._before, self._between, self._end = pieces({})
        self._cut_end = pieces({CUT: "true"})[-1]
        self._encoded_end = pieces({ENCODING: encoding})[-1]
        self._encoded_cut_end = pieces({CUT: "true", ENCODING: encoding})[-1]

    def wrap(self, lines: Sequence[Line]) -> list[Outgoing]:
        """The messages of these lines."""
        subject, start, before, between = self._subject, self._id, self._before, self._between
        end, cut_end = self._end, self._cut_end
        if self._compress is not None:
            return [self._wrap_one(line) for line in lines]
        wrapped = [
            Outgoing(
                subject,
                f"{start}{offset}",
                b"%b%d%b%d%b" % (before, offset, between, offset, cut_end if cut else end),
                data,
            )
            for offset, data, cut, _, _ in lines
        ]
        if lines and not lines[-1].ended:
            wrapped[-1] = self._wrap_one(lines[-1])
        return wrapped

    def _wrap_one(self, line: Line) -> Outgoing:
        packed = line.data if self._compress is None else self._compress(line.data)
        smaller = len(packed) + len(self._encoded_end) - len(self._end) < len(line.data)
        cut_end, end = (self._encoded_cut_end, self._encoded_end) if smaller else (self._cut_end, self._end)
        place = f"{line.offset}" if line.ended else f"{line.offset}+{len(line.data)}"
        block = b"%b%b%b%d%b" % (
            self._before,
            place.encode(),
            self._between,
            line.offset,
            cut_end if line.cut else end,
        )
        return Outgoing(self._subject, f"{self._id}{place}", block, packed if smaller else line.data)
