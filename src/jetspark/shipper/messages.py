"""Lines as messages: their subject, their id, their headers. No I/O.

```
subject   <prefix>.<partition>.<host>
headers   Nats-Msg-Id       <host>-<device>-<inode>-<fingerprint>-<generation>-<offset>
          Jetspark-Host     the true name of the host, escaped
          Jetspark-File     the path, escaped
          Jetspark-Offset   where the line begins in the file, in bytes
          Jetspark-Cut      "true" on a piece of a long line that goes on in the next piece
          Content-Encoding  gzip or zstd, if that made it smaller
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from jetspark.jetstream.bulk import Outgoing
from jetspark.shipper.lines import Line
from jetspark.shipper.names import header_text, partition_of, subject_token
from jetspark.wire.headers import encode_headers
from jetspark.wire.subjects import check_subject

__all__ = ["CUT", "ENCODING", "FILE", "HOST", "OFFSET", "Envelope", "subject_of"]

HOST: Final = "Jetspark-Host"
FILE: Final = "Jetspark-File"
OFFSET: Final = "Jetspark-Offset"
CUT: Final = "Jetspark-Cut"
ENCODING: Final = "Content-Encoding"


def subject_of(prefix: str, host: str, partitions: int) -> str:
    """Where the lines of a host go. Raises `UsageError` for a prefix that is none."""
    subject = f"{prefix}.{partition_of(host, partitions)}.{subject_token(host)}"
    check_subject(subject, "prefix")
    return subject


class Envelope:
    """What makes messages of the lines of one file."""

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
        self._id = f"{subject_token(host)}-{identity}-"
        headers = encode_headers({HOST: header_text(host), FILE: header_text(path)}).removesuffix(b"\r\n\r\n")
        self._before = headers + f"\r\nNats-Msg-Id: {self._id}".encode()
        self._between = f"\r\n{OFFSET}: ".encode()
        self._compress = compress
        self._encoding = f"\r\n{ENCODING}: {encoding}".encode()

    def wrap(self, lines: Iterable[Line]) -> list[Outgoing]:
        """The messages of these lines."""
        subject, start, before, between = self._subject, self._id, self._before, self._between
        if self._compress is not None:
            return [self._wrap_one(line) for line in lines]
        return [
            Outgoing(
                subject,
                f"{start}{offset}",
                b"%b%d%b%d%b\r\n\r\n"
                % (before, offset, between, offset, b"\r\nJetspark-Cut: true" if cut else b""),
                data,
            )
            for offset, data, cut in lines
        ]

    def _wrap_one(self, line: Line) -> Outgoing:
        assert self._compress is not None
        packed = self._compress(line.data)
        smaller = len(packed) + len(self._encoding) < len(line.data)
        block = b"%b%d%b%d%b%b\r\n\r\n" % (
            self._before,
            line.offset,
            self._between,
            line.offset,
            b"\r\nJetspark-Cut: true" if line.cut else b"",
            self._encoding if smaller else b"",
        )
        return Outgoing(self._subject, f"{self._id}{line.offset}", block, packed if smaller else line.data)
