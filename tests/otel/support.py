"""Finished spans, by name."""

from __future__ import annotations

import asyncio
import time

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

__all__ = ["Spans", "attributes", "context_of", "linked", "parent"]

_TIMEOUT = 20.0


class Spans:
    """What the SDK exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.processor = SimpleSpanProcessor(self._exporter)

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, operation: str) -> list[ReadableSpan]:
        """The spans of an operation: `publish`, `process`, `ack` and others."""
        return [span for span in self.all() if span.name.split()[0] == operation]

    def one(self, operation: str) -> ReadableSpan:
        (span,) = self.named(operation)
        return span

    def clear(self) -> None:
        self._exporter.clear()

    async def wait(self, operation: str, count: int = 1) -> list[ReadableSpan]:
        async with asyncio.timeout(_TIMEOUT):
            while len(found := self.named(operation)) < count:
                await asyncio.sleep(0.002)
        return found

    def wait_blocking(self, operation: str, count: int = 1) -> list[ReadableSpan]:
        deadline = time.monotonic() + _TIMEOUT
        while len(found := self.named(operation)) < count:
            assert time.monotonic() < deadline, f"{len(found)} spans of {operation}, not {count}"
            time.sleep(0.002)
        return found


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def parent(span: ReadableSpan) -> int | None:
    """The id of the parent of a span."""
    return None if span.parent is None else span.parent.span_id


def linked(span: ReadableSpan) -> list[int]:
    """The ids of the spans that it links to."""
    return [link.context.span_id for link in span.links]


def attributes(span: ReadableSpan, prefix: str = "messaging.") -> dict[str, object]:
    """Its attributes under a prefix, without that."""
    found = span.attributes or {}
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
