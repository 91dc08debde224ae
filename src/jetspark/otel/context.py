"""The trace context of a message: written into its headers, and read out of them.

The propagator that the program configured does both; by default it is that of W3C, with the headers
`traceparent`, `tracestate` and `baggage`. Any client may send headers: an invalid context is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link

from jetspark.core.headers import header_block
from jetspark.core.message import Received
from jetspark.errors import UsageError
from jetspark.wire.headers import Headers, HeadersLike

__all__ = ["context_headers", "context_of", "links_to", "with_context"]

#: Most characters of a header that are read; baggage may have as many.
_LONGEST: Final = 8192
#: Most messages that a span links to. The SDK keeps as many links by default.
_MOST_LINKS: Final = 128


class _Getter(Getter[Headers]):
    """Reads headers, except values that no propagator writes: they could break code that copies them."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        values = carrier.get_all(key)
        return values if values and all(map(_is_plain, values)) else None

    def keys(self, carrier: Headers) -> list[str]:
        return list(carrier)


_GETTER: Final = _Getter()


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()


def context_headers() -> dict[str, str]:
    """The headers that carry the current context; empty without one."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    try:
        header_block(carrier)
    except UsageError:  # A propagator's mistake must not keep a message from being sent.
        return {}
    return carrier


def with_context(headers: HeadersLike | None) -> HeadersLike | None:
    """Headers with the current context in place of one that they carry."""
    carrier = context_headers()
    if not headers or not carrier:
        return carrier or headers
    given = headers if isinstance(headers, Headers) else Headers(headers)
    kept = {name: values for name, values in given.multi_items() if name.lower() not in carrier}
    return {**kept, **carrier}


def context_of(message: Received, base: Context | None = None) -> Context:
    """The context that a message carries, on top of `base`, which is empty by default."""
    return propagate.extract(message.headers, Context() if base is None else base, _GETTER)


def links_to(messages: Iterable[Received]) -> Sequence[Link]:
    """Links to the spans that published these messages, each once; to those of the first messages only."""
    contexts = [_span_of(context_of(message)) for message in islice(messages, _MOST_LINKS)]
    return [Link(each) for each in {each.span_id: each for each in contexts if each.is_valid}.values()]


def _span_of(context: Context) -> trace.SpanContext:
    """The span of a context, which may be invalid."""
    return trace.get_current_span(context).get_span_context()
