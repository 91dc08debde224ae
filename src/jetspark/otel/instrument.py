"""`instrument` switches tracing on for a connection; `process` is the span of messages that a loop reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span, TracerProvider

from jetspark import blocking as blocking_api
from jetspark import client
from jetspark.core.connection import Connection as CoreConnection
from jetspark.core.message import Received
from jetspark.errors import UsageError
from jetspark.otel import blocking, classes
from jetspark.otel.spans import Template, Tracing

__all__ = ["instrument", "process"]

C = TypeVar("C", client.Connection, blocking_api.Connection)


def instrument(
    connection: C, *, tracer_provider: TracerProvider | None = None, template: Template | None = None
) -> C:
    """Trace the messages of a connection, and return it: `nc = instrument(await jetspark.connect(url))`.

    Call it before anything is made of the connection: objects that exist are not changed. Messages that it
    publishes carry the trace context in their headers. Callbacks and handlers run in a span, whose parent is
    the span that published the message; for messages that are read otherwise, there is `process`.

    Args:
        connection: An asynchronous or a blocking connection.
        tracer_provider: Where spans go; by default the global one.
        template: A function that gives the form of a subject for the names of spans, such as `orders.*` for
            `orders.17`. By default they contain the subject.

    Raises `UsageError` for anything but a connection.
    """
    if isinstance(connection, blocking_api.Connection):
        inner: client.Connection = connection._inner
    elif isinstance(connection, client.Connection):
        inner = connection
    else:
        raise UsageError(f"instrument needs a connection, not {type(connection).__name__}")
    inner.classes |= classes.CLASSES | blocking.CLASSES
    inner.__class__ = classes.TracedConnection
    assert isinstance(inner, classes.TracedConnection)
    inner.tracing = Tracing(inner, tracer_provider, template)
    if isinstance(connection, blocking_api.Connection):
        connection.__class__ = blocking.TracedBlockingConnection
    return connection


def process(messages: Received | Sequence[Received]) -> AbstractContextManager[Span]:
    """The span in which a message, or a batch of them, is processed: `with process(message): ...`.

    Without a current span, the span that published the message is its parent; otherwise, and for a batch, it
    links to the spans that published. For messages of an instrumented connection, with asyncio or blocking.
    Raises `UsageError` for others.
    """
    several = [messages] if isinstance(messages, Received) else messages
    if not several:
        return nullcontext(trace.INVALID_SPAN)
    connection = _connection_of(several[0])
    if not isinstance(connection, classes.TracedConnection):
        raise UsageError(
            "the connection of the message is not instrumented",
            hint="Call jetspark.otel.instrument(connection) after connecting",
        )
    return connection.tracing.processing(several)


def _connection_of(message: Received) -> CoreConnection | None:
    bridge = getattr(message, "_bridge", None)
    found: CoreConnection | None = (
        getattr(message, "_connection", None) if bridge is None else bridge.connection
    )
    return found
