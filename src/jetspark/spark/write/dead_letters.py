"""Dead letters of a write: rows that cannot be sent, as messages with the reason in a header. Pure.

| header                  |                                                                          |
|-------------------------|--------------------------------------------------------------------------|
| `Dead-Letter-Reason`    | the error, which names the column, the row and the partition             |
| `Dead-Letter-Subject`   | the subject of the row                                                   |
| `Dead-Letter-Headers`   | the headers of the row, as JSON                                          |
| `Dead-Letter-Truncated` | `true` if the data or the headers were too large and are cut             |
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from jetspark.core.headers import header_block
from jetspark.errors import UsageError
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.jetstream.publish.headers import MSG_ID

__all__ = ["HEADERS", "REASON", "SUBJECT", "TRUNCATED", "dead_letter"]

REASON: Final = "Dead-Letter-Reason"
SUBJECT: Final = "Dead-Letter-Subject"
HEADERS: Final = "Dead-Letter-Headers"
TRUNCATED: Final = "Dead-Letter-Truncated"

_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f]")
#: The longest reason, subject or id, in characters.
_MAX_TEXT: Final = 512
#: The longest headers as JSON. A stream takes 64 KiB of headers.
_MAX_HEADERS: Final = 32 * 1024


def dead_letter(
    to: str, msg_id: str, row: tuple[Any, Any, Any], error: UsageError, max_size: int
) -> Outgoing:
    """The message to `to` about a row (subject, data, headers) that cannot be sent because of `error`."""
    subject, data, fields = row
    listed = json.dumps(dict(fields or {}))
    longest, most = min(_MAX_TEXT, max_size // 8), min(_MAX_HEADERS, max_size // 4)
    headers = {
        MSG_ID: _line(msg_id, longest),
        REASON: _line(error.args[0], longest),
        TRUNCATED: "true",
    }
    if subject is not None:
        headers[SUBJECT] = _line(subject, longest)
    if fields:
        headers[HEADERS] = listed[:most]
    payload: bytes = data or b""
    room = max(max_size - len(header_block(headers)), 0)
    if len(payload) <= room and len(listed) <= most:
        del headers[TRUNCATED]
    return Outgoing(to, headers[MSG_ID], header_block(headers), payload[:room])


def _line(value: object, longest: int) -> str:
    """A value that is a line of a header."""
    return _BREAKS.sub("?", str(value))[:longest].strip() or "?"
