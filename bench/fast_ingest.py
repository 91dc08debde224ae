"""Fast ingest over a raw socket: one reply for many messages.

Requires nats-server 2.14 or later and a stream with `allow_batched`. The protocol is in the reply subject,
`<inbox>.<flow>.<fail|ok>.<number>.<operation>.$FI`. The server replies to the first message, then to every
`flow`-th one (it may change `flow`), and at the end with an acknowledgement for the whole batch.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final

from bench.raw import RawSocket

#: The requested flow; `AHEAD` times as many messages may be in flight.
FLOW: Final = 1000
AHEAD: Final = 4
#: Messages per write.
PIECE: Final = 500
FIRST, NEXT, LAST = 0, 1, 2

_ANSWER = re.compile(rb"MSG \S+ 1 (?:\S+ )?(\d+)\r\n")


def publish_fast(port: int, subject: str, payload: bytes, count: int, *, message_ids: bool = False) -> None:
    """Publish `count` messages (at least two) as one batch, which fails on a gap."""
    raw = RawSocket(port)
    run = b"%x" % time.time_ns()
    inbox = b"_INBOX.%b" % run
    raw.send(b"SUB %b.> 1\r\n" % inbox)

    def frame(number: int) -> bytes:
        operation = FIRST if number == 1 else LAST if number == count else NEXT
        reply = b"%b.%d.fail.%d.%d.$FI" % (inbox, FLOW, number, operation)
        if not message_ids:
            return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(payload), payload)
        header = b"NATS/1.0\r\nNats-Msg-Id: %b-%d\r\n\r\n" % (run, number)
        size = len(header)
        sizes = b"%d %d" % (size, size + len(payload))
        return b"HPUB %b %b %b\r\n%b%b\r\n" % (subject.encode(), reply, sizes, header, payload)

    raw.send(frame(1))
    sent, acknowledged = 1, 0
    flow = _answer(raw)["msgs"]
    while sent < count:
        room = min(AHEAD * flow - (sent - acknowledged), count - sent, PIECE)
        if room >= min(PIECE, count - sent):
            raw.send(b"".join([frame(number) for number in range(sent + 1, sent + room + 1)]))
            sent += room
        else:
            answer = _answer(raw)
            if answer.get("type") != "ack":
                raise RuntimeError(f"the server refused: {answer}")
            acknowledged, flow = answer["seq"], answer["msgs"]
    while (answer := _answer(raw)).get("type") == "ack":
        pass
    if answer.get("count") != count:
        raise RuntimeError(f"the batch was not stored completely: {answer}")
    raw.close()


def _answer(raw: RawSocket) -> dict[str, Any]:
    """The next reply that is not empty."""
    while True:
        found = _ANSWER.search(raw.buffer)
        if found is None or len(raw.buffer) < found.end() + int(found[1]) + 2:
            raw.receive()
            continue
        body = raw.buffer[found.end() : found.end() + int(found[1])]
        raw.buffer = raw.buffer[found.end() + len(body) + 2 :]
        if body:
            answer: dict[str, Any] = json.loads(body)
            return answer
