"""The spans of a connection, and their attributes.

They follow OpenTelemetry's conventions for messaging spans (semantic conventions 1.30 and later), which have
no section about NATS: `messaging.system` is `nats`, the destination is the subject, and the consumer group is
the consumer, or the queue group.

| span                   | kind     | operation type | parent                                     |
|------------------------|----------|----------------|--------------------------------------------|
| `publish`, `request`   | producer | `send`         | the current span                           |
| `create` (in a batch)  | producer | `create`       | the current span                           |
| `publish` (of a batch) | client   | `send`         | the current span; links to those `create`  |
| `process`              | consumer | `process`      | that of the message, or the current span   |
| `ack`, `nak`, `term`   | client   | `settle`       | the same                                   |

A received message has the span that published it as the parent of its spans, unless there is a current span:
then that is the parent, and there is a link to the other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from jetspark._version import __version__
from jetspark.core.headers import add_lines, header_lines
from jetspark.core.message import Received
from jetspark.errors import NotJetStreamMessage
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.jetstream.publish.headers import MSG_ID
from jetspark.otel.context import context_headers, context_of, links_to

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Template", "Tracing"]

#: Gives the part of a subject that few others differ in, such as `orders.*` for `orders.17`.
Template: TypeAlias = Callable[[str], str]
Attributes: TypeAlias = dict[str, str | int | bool]

_TEMPORARY: Final = "(temporary)"


class Tracing:
    """Makes the spans of one connection."""

    def __init__(
        self,
        connection: Connection,
        tracer_provider: TracerProvider | None = None,
        template: Template | None = None,
    ) -> None:
        self._connection = connection
        self._tracer = trace.get_tracer("jetspark", __version__, tracer_provider)
        self._template = template
        self._inboxes = f"{connection.options.inbox_prefix}."
        # The attributes of the server, and its URL.
        self._server: tuple[str, Attributes] = ("", {})

    # --- publish

    @contextmanager
    def sending(
        self,
        operation: str,
        subject: str,
        data: object,
        msg_id: str | None = None,
        *,
        kind: str = "send",
        ends: bool = True,
    ) -> Iterator[Span]:
        """The span of one message to publish, as the current one. `answered` ends it, if nothing does."""
        name, attributes = self._describe(operation, kind, subject)
        if isinstance(data, bytes | bytearray | memoryview):
            attributes["messaging.message.body.size"] = len(data)
        if isinstance(msg_id, str):
            attributes["messaging.message.id"] = msg_id
        started = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)
        with _entered(started, ends=ends) as span:
            yield span

    @contextmanager
    def sending_batch(self, subject: str, count: int, links: Sequence[Link]) -> Iterator[Span]:
        """The span of a batch whose messages have their own contexts."""
        name, attributes = self._describe("publish", "send", subject)
        attributes["messaging.batch.message_count"] = count
        started = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, links=links)
        with _entered(started) as span:
            yield span

    @contextmanager
    def sending_many(self, messages: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
        """The span of messages that share its context: the same messages, with that in their headers."""
        name, attributes = self._describe("publish", "send", messages[0].subject)
        attributes["messaging.batch.message_count"] = len(messages)
        with _entered(self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)):
            lines = header_lines(context_headers())
            yield [
                msgspec.structs.replace(message, block=add_lines(message.block, lines))
                for message in messages
            ]

    def stored(self, span: Span, ack: PubAck) -> None:
        """A stream has the message."""
        span.set_attributes({"jetspark.stream": ack.stream, "jetspark.sequence": ack.sequence})

    def answered(self, span: Span, future: asyncio.Future[PubAck] | Future[PubAck]) -> None:
        """End the span of a message: its stream has answered, or it failed."""
        if not future.cancelled():  # Cancelled by the program, which ignores the result.
            if (error := future.exception()) is not None:
                _fail(span, error)
            else:
                self.stored(span, future.result())
        span.end()

    # --- process and settle

    @contextmanager
    def processing(self, messages: Sequence[Received], group: str = "") -> Iterator[Span]:
        """The span in which messages are processed, as the current one."""
        with self._received("process", "process", SpanKind.CONSUMER, messages, group) as span:
            yield span

    @contextmanager
    def settling(self, operation: str, messages: Sequence[Received]) -> Iterator[Span]:
        """The span in which messages are acknowledged."""
        with self._received(operation, "settle", SpanKind.CLIENT, messages) as span:
            yield span

    def handler(self, function: Callable[[Any], Any], group: str = "") -> Callable[[Any], Any]:
        """A plain function that calls `function` in the span of its message."""

        def handle(message: Received) -> Any:
            with self.processing([message], group):
                return function(message)

        return handle

    def async_handler(
        self, function: Callable[[Any], Any], group: str = ""
    ) -> Callable[[Any], Coroutine[Any, Any, None]]:
        """The same with asyncio; `function` may be a coroutine function."""

        async def handle(message: Received) -> None:
            with self.processing([message], group):
                outcome = function(message)
                if outcome is not None and inspect.isawaitable(outcome):
                    await outcome

        return handle

    @contextmanager
    def _received(
        self, operation: str, kind: str, span_kind: SpanKind, messages: Sequence[Received], group: str = ""
    ) -> Iterator[Span]:
        name, attributes = self._describe(operation, kind, messages[0].subject)
        if group:
            attributes["messaging.consumer.group.name"] = group
        single = len(messages) == 1
        attributes |= _of_delivery(messages[0], single=single)
        if not single:
            attributes["messaging.batch.message_count"] = len(messages)
        parent: Context | None = None
        links: Sequence[Link] = ()
        if single and not trace.get_current_span().get_span_context().is_valid:
            parent = context_of(messages[0], get_current())
        else:
            links = links_to(messages)
        started = self._tracer.start_span(name, parent, kind=span_kind, attributes=attributes, links=links)
        with _entered(started, parent) as span:
            yield span

    # --- attributes

    def _describe(self, operation: str, kind: str, subject: str) -> tuple[str, Attributes]:
        """The name of a span, and the attributes that all have."""
        attributes: Attributes = {
            "messaging.system": "nats",
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
            "messaging.destination.name": subject,
        }
        destination = subject
        if subject.startswith(self._inboxes):
            attributes["messaging.destination.temporary"] = True
            destination = _TEMPORARY
        elif self._template is not None:
            destination = attributes["messaging.destination.template"] = self._template(subject)
        return f"{operation} {destination}", attributes | self._of_server()

    def _of_server(self) -> Attributes:
        url = self._connection.connected_url
        if url is not None and url != self._server[0]:
            parts = urlsplit(url)
            attributes: Attributes = {"server.address": parts.hostname or url}
            if parts.port is not None:
                attributes["server.port"] = parts.port
            self._server = (url, attributes)
        return self._server[1]


@contextmanager
def _entered(span: Span, context: Context | None = None, *, ends: bool = True) -> Iterator[Span]:
    """Make a span the current one, in `context`, which may have baggage. It ends here, or if this fails."""
    token = attach(trace.set_span_in_context(span, context))
    try:
        yield span
    except Exception as error:
        _fail(span, error)
        ends = True
        raise
    finally:
        detach(token)
        if ends:
            span.end()


def _fail(span: Span, error: BaseException) -> None:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    span.set_attribute("error.type", f"{module}{kind.__qualname__}")
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _of_delivery(message: Received, *, single: bool) -> Attributes:
    """The attributes of a message, or of the first one of several."""
    attributes: Attributes = {}
    if single:
        attributes["messaging.message.body.size"] = len(message.data)
        if msg_id := message.headers.get(MSG_ID):
            attributes["messaging.message.id"] = msg_id
    with suppress(NotJetStreamMessage):
        metadata = parse_metadata(message._frame.reply)
        attributes["messaging.consumer.group.name"] = metadata.consumer
        attributes["jetspark.stream"] = metadata.stream
        if single:
            attributes["jetspark.sequence"] = metadata.sequence.stream
            attributes["jetspark.deliveries"] = metadata.num_delivered
    return attributes
