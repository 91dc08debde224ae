"""Messages of a stream for the browser: a page of previews, one message in full. Both are bounded."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime
from typing import Any, Final, NamedTuple

from jetspark.console.text import Body, line, show_body
from jetspark.errors import MessageNotFound, UsageError
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import StreamInfoRequest

__all__ = ["PAGE", "Detail", "Preview", "parse_sequence", "read_message", "read_page", "top_subjects"]

#: Messages of a page, and about the bytes that are read for it.
PAGE: Final = 25
_BYTES: Final = 4 << 20
#: Bytes of a payload that become its preview, and characters of that.
_PREVIEW: Final = 160
#: Headers of a message that are shown, and characters of each.
_HEADERS: Final = 100
_VALUE: Final = 2000
#: Streams with more subjects are not counted by subject.
_SUBJECTS: Final = 20_000
_TOP: Final = 20


class Preview(NamedTuple):
    """A message in a list."""

    sequence: int
    time: datetime
    subject: str
    size: int
    headers: int
    text: str


class Detail(NamedTuple):
    """A message."""

    sequence: int
    time: datetime
    subject: str
    size: int
    headers: list[tuple[str, str]]
    body: Body


def preview(data: bytes) -> str:
    """The beginning of a payload, on a line."""
    text = data[:_PREVIEW].decode("utf-8", "replace")
    if "\ufffd" in text[:-4] or "\0" in text:
        return f"binary: {data[:24].hex(' ')}"
    return line(" ".join(text.split()), _PREVIEW)


async def read_page(
    js: JetStream,
    stream: str,
    *,
    sequence: int | None = None,
    subject: str | None = None,
    time: datetime | None = None,
) -> list[Preview]:
    """Messages from a sequence or time on, of subjects that match. Raises the errors of the stream."""
    found: list[Preview] = []
    size = 0
    start = None if time is not None else max(sequence or 1, 1)
    handle = await js.get_stream(stream)
    messages = handle.get_messages(start, subject=subject, start_time=time, batch=PAGE, max_bytes=_BYTES)
    try:
        async with aclosing(messages):  # type: ignore[type-var]
            async for message in messages:
                found.append(_preview(message))
                size += len(message.data)
                if size > _BYTES:
                    break
    except MessageNotFound:
        pass
    return found


def _preview(message: StoredMessage) -> Preview:
    return Preview(
        message.sequence,
        message.timestamp,
        line(message.subject),
        len(message.data),
        len(message.headers),
        preview(message.data),
    )


async def read_message(js: JetStream, stream: str, sequence: int) -> Detail:
    """One message. Raises `MessageNotFound`."""
    message = await (await js.get_stream(stream)).get_message(sequence)
    headers = [
        (line(name), line(value, _VALUE))
        for name, values in message.headers.multi_items()
        for value in values
    ]
    return Detail(
        message.sequence,
        message.timestamp,
        line(message.subject),
        len(message.data),
        headers[:_HEADERS],
        show_body(message.data),
    )


async def top_subjects(js: JetStream, info: StreamInfo) -> list[tuple[str, int]] | None:
    """The subjects with the most messages, in one request; None if there are too many to count."""
    if info.state.num_subjects > _SUBJECTS:
        return None
    request = StreamInfoRequest(subjects_filter=">")
    answer: dict[str, Any] = await js.api.call(endpoints.STREAM_INFO, request, stream=info.config.name)
    counts = StreamInfo.from_wire(answer).state.subjects
    return sorted(counts.items(), key=lambda item: -item[1])[:_TOP]


def parse_sequence(text: str) -> int:
    """A sequence that an operator typed. Raises `UsageError`."""
    digits = text.strip().replace(",", "").replace("_", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20 and 0 < int(digits) < 2**64):
        raise UsageError(f"not a sequence: {line(text, 40)}")
    return int(digits)
