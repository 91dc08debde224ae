"""Messages as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.cli.ui.escape import escape_line, escape_payload
from jetspark.cli.ui.output import Output

if TYPE_CHECKING:
    from jetspark.core.message import Msg
    from jetspark.jetstream.message.delivered import JetStreamMsg
    from jetspark.jetstream.message.stored import StoredMessage
    from jetspark.wire.headers import Headers

__all__ = ["show_delivered", "show_received", "show_stored"]


def show_stored(out: Output, message: StoredMessage) -> None:
    """A message read from a stream, as the `nats` CLI shows it."""
    when = message.timestamp.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f %z")
    out.text(f"Item: {message.stream}#{message.sequence} received {when} on Subject {message.subject}")
    if message.headers:
        out.text()
    _rest(out, message.headers, message.data)


def show_delivered(out: Output, message: JetStreamMsg, number: int) -> None:
    """A message delivered by a consumer."""
    metadata = message.metadata
    again = f", delivery {metadata.num_delivered}" if metadata.num_delivered > 1 else ""
    out.text(
        f'[#{number}] Received on "{message.subject}": {metadata.stream}#{metadata.sequence.stream}, '
        f"{metadata.num_pending} pending{again}"
    )
    _rest(out, message.headers, message.data)


def show_received(out: Output, message: Msg, number: int) -> None:
    """A message received by a Core NATS subscription."""
    reply = f' with reply "{message.reply}"' if message.reply else ""
    out.text(f'[#{number}] Received on "{message.subject}"{reply}')
    _rest(out, message.headers, message.data)


def _rest(out: Output, headers: Headers, data: bytes) -> None:
    for name, values in headers.multi_items():
        for value in values:
            out.text(f"  {escape_line(name)}: {escape_line(value)}", safe=True)
    out.text(f"\n{escape_payload(data)}\n", safe=True)
